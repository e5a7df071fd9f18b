#!/bin/sh
# Creates the namespace of the runs. May run again at any time.
# TEMPORAL_ADDRESS and TEMPORAL_NAMESPACE say where.
set -eu

attempts=0
until temporal operator cluster health; do
  attempts=$((attempts + 1))
  if [ "$attempts" -ge 60 ]; then
    echo "The Temporal server at $TEMPORAL_ADDRESS is not healthy." >&2
    exit 1
  fi
  sleep 1
done

# Reports are made from histories, so these must be kept as long as a report may be asked for.
temporal operator namespace describe -n "$TEMPORAL_NAMESPACE" ||
  temporal operator namespace create -n "$TEMPORAL_NAMESPACE" --retention 30d
