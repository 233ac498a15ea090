# kernels.awk - checks the limits of kernels and prints the rows of tests/device/cuda/kernels.md. Input files, with tabs between columns:
# known exceptions (kernel, stack, spills, "fits"), launches (kernel, threads, dynamic and static shared memory), compiled kernels
# (architecture, kernel, file, threads, registers, static shared memory, stack, spills).
BEGIN {
    # The minimum over the GPUs that run the code of an architecture: 8.6 and 8.9 run sm_80's code, 12.0 runs sm_100's PTX.
    max_shared["80"] = 99 * 1024; max_shared["90"] = 227 * 1024; max_shared["100"] = 99 * 1024
}

function complain(text)
{
    print "kernels: sm_" architecture ", " kernel " (" $3 "): " text
    failed = 1
}

function up(value, unit)
{
    return int((value + unit - 1) / unit) * unit
}

function min(a, b)
{
    return a < b ? a : b
}

# The number of blocks on a multiprocessor of sm_90, which has 64 warps, 32 blocks and 228 KiB of shared memory. Each block
# uses 1 KiB of shared memory in addition. Registers are allocated to a warp in units of 256, and to warps in groups of four.
function blocks(threads, registers, shared,    warps, count)
{
    warps = int((threads + 31) / 32)
    count = min(32, int(64 / warps))
    count = min(count, int(int(65536 / up(registers * 32, 256) / 4) * 4 / warps))
    return min(count, int(228 * 1024 / (up(shared, 128) + 1024)))
}

FILENAME != file { file = FILENAME; number++ }

number == 1 { stack_allowed[$1] = $2; spills_allowed[$1] = $3; fits[$1] = $4 == "fits" }

number == 2 {
    if (!($1 in seen) || $2 > launched[$1]) launched[$1] = $2
    if (!($1 in seen) || $3 > dynamic[$1]) dynamic[$1] = $3
    counted[$1] = $4
    seen[$1]    = 1
}

number == 3 {
    architecture = $1; kernel = $2; threads = $4; registers = $5; static = $6; stack = $7; spills = $8
    if ((architecture, kernel) in registers_of)
        complain("two kernels have this name")
    if (threads == 0)
        complain("has no __launch_bounds__, which gives the maximum of its threads in a block")
    if (!(kernel in seen))
        complain("is not launched by the tests that .ci/kernels runs")
    if (launched[kernel] > threads)
        complain("is launched with " launched[kernel] " threads in a block, but compiled for " threads)
    if (up(threads, 32) * up(registers, 8) > 65536)
        complain(registers " registers per thread and " threads " threads are more than the 65,536 registers of a block")
    if (stack > stack_allowed[kernel] + 0)
        complain("a stack frame of " stack " bytes, where " stack_allowed[kernel] + 0 " are allowed")
    if (spills > spills_allowed[kernel] + 0)
        complain(spills " bytes of spills, where " spills_allowed[kernel] + 0 " are allowed")
    if (!fits[kernel] && static + dynamic[kernel] > max_shared[architecture])
        complain(static " bytes of static and " dynamic[kernel] " of dynamic shared memory, where the maximum of a block is " max_shared[architecture])
    if (static < counted[kernel] || static > counted[kernel] + 128)
        complain(static " bytes of static shared memory, but the emulator counts " counted[kernel])
    registers_of[architecture, kernel] = registers
    spilled_of[architecture, kernel]   = stack " + " spills
    if (architecture == 90) {
        names[++count] = kernel
        place[kernel] = $3; threads_of[kernel] = threads; static_of[kernel] = static
    }
}

# One figure if all architectures have the same, else those of sm_80, sm_90 and sm_100.
function columns(of, kernel)
{
    if (of[80, kernel] == of[90, kernel] && of[90, kernel] == of[100, kernel])
        return of[90, kernel]
    return of[80, kernel] " / " of[90, kernel] " / " of[100, kernel]
}

END {
    for (i = 1; i <= count; i++) {
        kernel = names[i]
        many   = blocks(threads_of[kernel], registers_of[90, kernel], static_of[kernel] + dynamic[kernel])
        spilled = columns(spilled_of, kernel)
        printf "| `%s` | %s | %d | %s | %d | %d | %d | %d %% | %s |\n", kernel, place[kernel], threads_of[kernel],
               columns(registers_of, kernel), static_of[kernel], dynamic[kernel], many,
               many * up(threads_of[kernel], 32) * 100 / 2048, spilled == "0 + 0" ? "" : spilled > rows
    }
    exit failed
}
