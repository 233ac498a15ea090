# shellcheck shell=bash
# train.sh - what the tests of packages do with an installed cspeed: a short training on 2 ranks, and a sample of it. To be run in
# an empty folder with an argument: the folder of the installed configurations.
set -euo pipefail

cspeed --version
printf 'the quick brown fox jumps over the lazy dog, number %d, and the dog does not mind.\n' {1..2000} >text
cspeed pack --output data/quickstart --seq_len 64 text
# The same text compressed, and a line of 100 letters as a frame of zstd that stores it.
gzip -k text
{ printf '\x28\xb5\x2f\xfd\x20\x64\x21\x03\x00' && printf 'a%.0s' {1..99} && echo; } >line.zst
cspeed pack --output data/compressed --seq_len 64 text.gz line.zst
cspeed --num_gpus 2 train --config "$1/tiny_cpu.json" --steps 20
cspeed generate runs/tiny_cpu --prompt 'the quick' --max_tokens 20
