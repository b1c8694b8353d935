# A command agent with a side effect: each call leaves a file before it answers.
#
# `agent.sh NAME` answers by what the prompt says, so that the same prompt always gives the same
# reply. Where the file `kill_at` holds the number of this call, the process that made the call is
# killed while it waits for the answer. A shell, because a thousand calls are made, and an
# interpreter takes thirty times as long to start.

name=$1
# Read by the shell itself: `cat` would be two more processes.
prompt=''
while IFS= read -r line; do
    prompt="$prompt$line
"
done
prompt=$prompt$line

# Others may write at the same time: each takes the first number that nobody has.
set -o noclobber
number=1
until { printf '%s\n' "$name" > "call_$number"; } 2> /dev/null; do
    number=$((number + 1))
done
kill_at=
if [ -e kill_at ]; then read -r kill_at < kill_at; fi
if [ "$kill_at" = "$number" ]; then kill -s KILL "$PPID"; fi

# Whether the prompt has this in it.
says() {
    case $prompt in *"$1"*) true ;; *) false ;; esac
}

passed='{"verdict": "pass", "findings": []}'

case $name in
author)
    if says 'revision 2'; then printf '# Plan\n\nLong enough, good.\n'
    elif says 'revision 1'; then printf '# Plan\n\nLong enough, handwaving.\n'
    else echo 'Only a title'
    fi
    ;;
planner)
    if says 'revision 1'; then printf '# Plan\n\nLong enough, good.\n'
    else printf '# Plan\n\nLong enough, handwaving.\n'
    fi
    ;;
critic | mumbler)
    if [ "$name" = mumbler ] && ! says 'could not be used'; then echo 'Well.'
    elif says handwaving; then
        echo '{"verdict": "fail", "findings": [{"message": "Too vague.", "severity": "error"}]}'
    else echo "$passed"
    fi
    ;;
reviewer)
    if says 'good.'; then echo "$passed"; exit; fi
    known='' count=0
    while read -r line; do
        case $line in
        '{"id": "'*)
            id=${line#'{"id": "'}
            known="$known${known:+, }\"${id%%\"*}\": \"open\""
            count=$((count + 1))
            ;;
        esac
    done << END
$prompt
END
    new="{\"message\": \"Finding $((count + 1)).\", \"severity\": \"error\"}"
    echo "{\"verdict\": \"fail\", \"known\": {$known}, \"findings\": [$new]}"
    ;;
*) echo "$name ran" ;;
esac
