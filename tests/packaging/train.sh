# shellcheck shell=bash
# train.sh - what the tests of packages do with an installed cspeed: a short training on 2 ranks, and a sample of it. To be run in
# an empty folder with an argument: the folder of the installed configurations.
set -euo pipefail

cspeed --version
printf 'the quick brown fox jumps over the lazy dog, number %d, and the dog does not mind.\n' {1..2000} >text
cspeed pack --output data/quickstart --seq_len 64 text
cspeed --num_gpus 2 train --config "$1/tiny_cpu.json" --steps 20
cspeed generate runs/tiny_cpu --prompt 'the quick' --max_tokens 20
