#!/bin/bash
test "$(cat /tmp/answer)" = 42 && test "$(cat /app/greeting.txt)" = hello
echo $((1 - $?)) > /logs/verifier/reward.txt
