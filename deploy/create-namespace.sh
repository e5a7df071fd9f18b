#!/bin/sh
# Creates the namespace for the runs, at TEMPORAL_ADDRESS, with the name TEMPORAL_NAMESPACE. Safe to run again.
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

# Reports are built from histories: keep these for as long as somebody may ask for a report.
temporal operator namespace describe -n "$TEMPORAL_NAMESPACE" ||
  temporal operator namespace create -n "$TEMPORAL_NAMESPACE" --retention 30d

# Optional: tells in Temporal's list of runs how each run ended.
temporal operator search-attribute create -n "$TEMPORAL_NAMESPACE" --name RunbookOutcome --type Keyword ||
  echo "RunbookOutcome was not created: the list of runs goes without outcomes." >&2
