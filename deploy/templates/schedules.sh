#!/bin/sh
# Creates the Schedules of {{deployment}}; run it once: samples that bound the loss of a failover, and a readiness check every hour.
# Set the environment for Temporal first: . {{shell}}
set -eu
temporal schedule create --schedule-id wal-sampler-{{deployment}} --interval 1m \
  --overlap-policy Skip --catchup-window 1m --workflow-id walSampler:{{deployment}}:scheduled \
  --type walSampler --task-queue {{taskQueue}} --input '{"deployment":"{{deployment}}"}'
temporal schedule create --schedule-id readiness-{{deployment}} --interval 1h \
  --overlap-policy Skip --catchup-window 1m --workflow-id readiness-scheduled:{{deployment}} \
  --type readiness --task-queue {{taskQueue}} --input '{"deployment":"{{deployment}}"}'
