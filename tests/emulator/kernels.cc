/* kernels.cc - properties of kernels: name, bytes of static shared memory, and the largest launch.
 *
 * Name and static shared memory are read from the module's symbol table: kernels are static functions, and CE_SHARED
 * declares static variables of the kernel. The environment variable CSPEED_EMULATOR_LAUNCHES names a file. A line is
 * appended to this file whenever a launch of a kernel has more threads in a block, or more dynamic shared memory, than
 * all earlier launches of this kernel. The line has the name, the threads of a block, the bytes of dynamic shared
 * memory and the bytes of static shared memory, separated by tabs. */
#include "emulator.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <map>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct symbols {
    const ElfW(Sym) *first = nullptr;
    size_t count = 0;
    const char *names = nullptr;
    uintptr_t base = 0; /* load address of the module */
};

/* Reads the symbol table; the result is empty if the module has none. The file stays mapped. */
static symbols read_symbols()
{
    Dl_info self = {};
    struct stat facts = {};
    symbols found;
    dladdr(reinterpret_cast<const void *>(emulator_kernel_of), &self);
    int file = open(self.dli_fname, O_RDONLY | O_CLOEXEC);
    void *memory = file < 0 || fstat(file, &facts) != 0
                       ? MAP_FAILED
                       : mmap(nullptr, (size_t)facts.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    if (file >= 0)
        close(file);
    if (memory == MAP_FAILED)
        return found;
    const char *bytes = (const char *)memory;
    auto header = (const ElfW(Ehdr) *)bytes;
    auto sections = (const ElfW(Shdr) *)(bytes + header->e_shoff);
    for (int i = 0; i < header->e_shnum; i++)
        if (sections[i].sh_type == SHT_SYMTAB)
            found = { (const ElfW(Sym) *)(bytes + sections[i].sh_offset), sections[i].sh_size / sizeof(ElfW(Sym)),
                      bytes + sections[sections[i].sh_link].sh_offset, (uintptr_t)self.dli_fbase };
    return found;
}

static const char *symbol_at(const symbols &all, const void *kernel)
{
    for (size_t i = 0; i < all.count; i++)
        if (ELF64_ST_TYPE(all.first[i].st_info) == STT_FUNC && all.first[i].st_value == (uintptr_t)kernel - all.base)
            return all.names + all.first[i].st_name;
    return nullptr;
}

/* Returns the bytes of the static variables of a kernel. The variables of the function _ZKERNEL are named
 * _ZZKERNELEvariable. */
static size_t shared_of(const symbols &all, const char *kernel)
{
    std::string prefix = std::string("_Z") + (kernel + 1) + "E";
    size_t bytes = 0;
    for (size_t i = 0; i < all.count; i++)
        if (ELF64_ST_TYPE(all.first[i].st_info) == STT_OBJECT &&
            strncmp(all.names + all.first[i].st_name, prefix.c_str(), prefix.size()) == 0)
            bytes += all.first[i].st_size;
    return bytes;
}

static emulator_kernel read_kernel(const void *kernel)
{
    static const symbols all = read_symbols();
    const char *symbol = symbol_at(all, kernel);
    char place[64];
    int status = 0;
    snprintf(place, sizeof place, "at offset 0x%zx", (size_t)((uintptr_t)kernel - all.base));
    if (!symbol)
        return { place, 0, 0, 0 };
    char *plain = abi::__cxa_demangle(symbol, nullptr, nullptr, &status);
    emulator_kernel read = { plain ? plain : symbol, strncmp(symbol, "_Z", 2) == 0 ? shared_of(all, symbol) : 0, 0, 0 };
    free(plain);
    return read;
}

emulator_kernel &emulator_kernel_of(const void *kernel)
{
    static std::map<const void *, emulator_kernel> known;
    auto found = known.find(kernel);
    return found != known.end() ? found->second : known.emplace(kernel, read_kernel(kernel)).first->second;
}

void emulator_note_launch(emulator_kernel &kernel, unsigned threads, size_t dynamic_bytes)
{
    static const char *path = getenv("CSPEED_EMULATOR_LAUNCHES");
    if (!path || (threads <= kernel.threads && dynamic_bytes <= kernel.dynamic_bytes))
        return;
    kernel.threads = std::max(threads, kernel.threads);
    kernel.dynamic_bytes = std::max(dynamic_bytes, kernel.dynamic_bytes);
    int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (file < 0 ||
        dprintf(file, "%s\t%u\t%zu\t%zu\n", kernel.name.c_str(), threads, dynamic_bytes, kernel.static_bytes) < 0)
        emulator_fatal("%s (CSPEED_EMULATOR_LAUNCHES) cannot be written: %s", path, strerror(errno));
    close(file);
}
