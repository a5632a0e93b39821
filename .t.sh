echo -10 > /proc/self/autogroup
ninja -C build/ci lockstep 2>&1 | grep -E "error|FAILED" | head
