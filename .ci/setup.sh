# shellcheck shell=bash
# setup.sh - what quickstart and check share: installing what is missing, building, and stopping with a sentence.
# To be sourced from the repository's root.

# stop CODE SENTENCE...
stop()
{
    local code=$1
    shift
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit "$code"
}

cores()
{
    nproc 2>/dev/null || echo 1
}

have_command()
{
    command -v "$1" >/dev/null 2>&1
}

# A library is there when a program that includes its header links with it.
have_library() # HEADER LINK_OPTION...
{
    local header=$1
    shift
    have_command cc && printf '#include <%s>\nint main(void) { return 0; }\n' "$header" | cc -x c - -o /dev/null "$@" 2>/dev/null
}

# The packages, one a line, that building lacks here.
missing_to_build()
{
    if ! have_command cc || ! have_command make || ! have_library stdio.h; then echo build-essential; fi
    have_command cmake || echo cmake
    have_command pkg-config || echo pkg-config
    pkg-config --exists jansson 2>/dev/null || echo libjansson-dev
    pkg-config --exists libcrypto 2>/dev/null || echo libssl-dev
    pkg-config --exists libssh 2>/dev/null || echo libssh-dev
    pkg-config --exists hwloc 2>/dev/null || echo libhwloc-dev
    pkg-config --exists libpcre2-8 2>/dev/null || echo libpcre2-dev
    pkg-config --exists libutf8proc 2>/dev/null || echo libutf8proc-dev
    pkg-config --exists zlib 2>/dev/null || echo zlib1g-dev
    pkg-config --exists libzstd 2>/dev/null || echo libzstd-dev
    if ! have_library dnnl.h -ldnnl; then echo libdnnl-dev; fi
}

as_root()
{
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

apt_install()
{
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"
}

# Package lists are fetched only where they are absent or too old to install from.
install_packages() # PACKAGE...
{
    [ $# -gt 0 ] || return 0
    have_command apt-get || stop 1 "these are missing: $*. This machine has no apt-get to install them with; install them by its own means"
    if [ "$(id -u)" -ne 0 ] && ! have_command sudo; then
        stop 1 "these packages are missing: $*. Install them as root: apt-get install $*"
    fi
    echo "installing $*"
    if ! apt_install "$@" >/dev/null 2>&1; then
        as_root apt-get update -qq || stop 1 "cannot fetch the package lists; missing are: $*"
        apt_install "$@" >/dev/null || stop 1 "cannot install $*"
    fi
}

# Packages without which something is missing that only some need: their absence does not stop the build.
welcome_packages() # PACKAGE...
{
    [ $# -gt 0 ] && have_command apt-get || return 0
    if [ "$(id -u)" -ne 0 ] && ! have_command sudo; then return 0; fi
    apt_install "$@" >/dev/null 2>&1 || echo "cannot install $*; the build does without"
}

welcome_to_build()
{
    pkg-config --exists yaml-0.1 2>/dev/null || echo libyaml-dev # reads recipes of other trainers
    pkg-config --exists libcurl 2>/dev/null || echo libcurl4-openssl-dev # downloads models
}

# Whether the build folder was configured for this clone, and not for another one, from which it was copied or moved.
configured_here() # FOLDER
{
    grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$PWD" "$1/CMakeCache.txt" 2>/dev/null
}

# build FOLDER TARGETS CMAKE_OPTION... : configures and builds, quietly; on failure the end of the log.
# TARGETS: words, or "all". A folder that was configured for another place or compiler is made anew.
build()
{
    local folder=$1 targets=$2 began=$SECONDS
    local log=$folder/build.log
    shift 2
    if [ -f "$folder/CMakeCache.txt" ] && ! configured_here "$folder"; then rm -rf "$folder"; fi
    mkdir -p "$folder"
    printf 'building %s ... ' "$folder"
    # shellcheck disable=SC2086 # targets are words
    if ! { cmake -S . -B "$folder" "$@" && cmake --build "$folder" -j "$(cores)" --target $targets; } >"$log" 2>&1; then
        echo "failed; the end of $log:"
        grep -n -m 10 -E '(error|Error|ERROR)' "$log" || true
        tail -n 25 "$log"
        return 1
    fi
    echo "$((SECONDS - began)) s"
}
