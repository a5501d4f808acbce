#!/bin/bash
# usage: run.sh pick...
B=$(ls -t target/debug/deps/quota_model-* | grep -v '\.d' | head -1)
for p in "$@"; do TIDEGATE_PICK="$p" timeout 500 $B table --nocapture 2>&1 | grep -E "used|panicked|held|wrongly"; done
