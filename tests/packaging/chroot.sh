# shellcheck shell=bash
# chroot.sh - clean Debian systems for tests, in folders that are entered with chroot. To be sourced; $name is the test, $work its
# folder. The caller runs in namespaces of its own (enter_namespaces), so that mounts and processes end with it.
release=bookworm
cache=${XDG_CACHE_HOME:-$HOME/.cache}/cspeed-tests

skip() # REASON
{
    echo "$name: skipped, $1"
    exit 77
}

fail() # SENTENCE
{
    echo "$name: $1" >&2
    exit 1
}

# Runs the calling script again, in new namespaces and with an empty folder $work that is removed at the end.
enter_namespaces()
{
    local code=0
    [ -z "${work:-}" ] || return 0
    [ "$(id -u)" -eq 0 ] || skip "only root can use chroot"
    command -v debootstrap >/dev/null || skip "debootstrap is not installed"
    unshare --mount --pid --fork true 2>/dev/null || skip "this system does not let root make namespaces"
    work=$(mktemp -d)
    export work
    unshare --mount --pid --fork --kill-child "$0" || code=$?
    rm -rf --one-file-system "$work"
    exit $code
}

# A system with Debian's smallest set of packages. It is fetched once and kept in $cache.
make_system() # FOLDER
{
    if [ ! -f "$cache/$release.tar" ]; then
        mkdir -p "$cache"
        debootstrap --variant=minbase $release "$work/first" >"$cache/debootstrap.log" 2>&1 ||
            skip "debootstrap failed; see $cache/debootstrap.log"
        tar -C "$work/first" -cf "$cache/$release.tar.part" .
        mv "$cache/$release.tar.part" "$cache/$release.tar"
        rm -rf --one-file-system "$work/first"
    fi
    mkdir "$1"
    tar -C "$1" -xf "$cache/$release.tar"
    cp -L /etc/resolv.conf "$1/etc/resolv.conf"
    mount -t proc proc "$1/proc"
    mount -t tmpfs tmpfs "$1/dev"
    local device
    for device in null zero full random urandom tty; do cp -a /dev/$device "$1/dev/$device"; done
    ln -s /proc/self/fd "$1/dev/fd"
    mkdir "$1/dev/shm" "$1/dev/pts"
    mount -t devpts -o newinstance,ptmxmode=0666 devpts "$1/dev/pts"
    ln -s pts/ptmx "$1/dev/ptmx"
}

in_system() # FOLDER COMMAND_LINE
{
    chroot "$1" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
        DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 bash -ec "$2"
}

# Does what the Dockerfile's instructions say; the stage NAME is the system $work/NAME, and the last stage $work/image.
follow_dockerfile() # SOURCE_FOLDER
{
    local source=$1 word arguments system="" from
    # shellcheck disable=SC2162 # read joins lines that end with a backslash
    while read word arguments; do
        case "$word $arguments" in
        "FROM debian:$release-slim"*)
            system=$work/image
            [[ $arguments != *" AS "* ]] || system=$work/${arguments##* }
            make_system "$system"
            ;;
        "COPY . "*)
            mkdir -p "$system/${arguments#. }"
            tar -C "$source" --anchored --transform 's,^\./,,' -X <(sed 's,^,./,' "$source/.dockerignore") -c . |
                tar -C "$system/${arguments#. }" -x --no-same-owner
            ;;
        "COPY --from="*)
            arguments=${arguments#--from=}
            from=$work/${arguments%% *}
            arguments=${arguments#* }
            # shellcheck disable=SC2086 # the path is a pattern
            cp -a "$from"${arguments% *} "$system${arguments##* }"
            ;;
        "RUN "*) in_system "$system" "$arguments" ;;
        "CMD "* | "#"* | " ") ;;
        *) fail "Dockerfile: this test does not know the instruction $word $arguments" ;;
        esac
    done <"$source/Dockerfile"
}
