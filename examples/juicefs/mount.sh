#!/bin/sh
# As it grew: one option is misspelt, and the window was written in bytes.
juicefs mount --buffersize 300 --max-readahead 33554432 --prefetch 1 -d redis://meta:6379/1 /mnt/juicefs
