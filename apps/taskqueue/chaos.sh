#!/bin/sh
# A check for stator chaos: a task queue on the server with faults. Each of 20 tasks must be completed,
# have been run once, and equal the replay of its events. TASKQUEUE is the program.
#
#   go build -o taskqueue.bin ./taskqueue/cmd/taskqueue
#   TASKQUEUE=./taskqueue.bin stator chaos --check ./taskqueue/chaos.sh --seeds 100
set -u
program=${TASKQUEUE:-./taskqueue.bin}
log=$(mktemp)
"$program" serve --endpoint "$AWS_ENDPOINT_URL" --listen 127.0.0.1:0 >"$log" 2>&1 &
server=$!
trap 'kill $server 2>/dev/null; wait $server 2>/dev/null; rm -f "$log"' EXIT
url=
for _ in $(seq 300); do
	url=$(grep -o 'http://127\.0\.0\.1:[0-9]*' "$log" | grep -v "^$AWS_ENDPOINT_URL\$" | head -1)
	[ -n "$url" ] && break
	sleep 0.1
done
[ -n "$url" ] || { echo "the task queue does not start"; cat "$log"; exit 1; }
"$program" bench --server "$url" --rate 10 --for 2s --ceiling 0 --workers 3
code=$?
[ $code -eq 0 ] || tail -5 "$log"
exit $code
