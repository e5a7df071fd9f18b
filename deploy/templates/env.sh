# In a shell: . {{shell}}
set -a; . {{settings}}; set +a
PATH="$PATH:"{{bin}}
