// Shows a process another x86-64 processor than it runs on: vendor, instruction sets, caches.
//
//   cc -O1 -shared -fPIC -o fakecpu.so fakecpu.c
//   LD_PRELOAD=./fakecpu.so FAKECPU=milan COMMAND      (or genoa, skylake, icelake)
//
// CPUID faulting (arch_prctl ARCH_SET_CPUID) makes each `cpuid` instruction raise SIGSEGV; the
// handler answers in its place. Intel has it since Ivy Bridge and AMD since Zen 5; /proc/cpuinfo
// lists it as cpuid_fault. It changes which code a library chooses, not what an instruction
// computes. Threads and child processes inherit it.
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define ARCH_SET_CPUID 0x1012

typedef struct {
  uint32_t a, b, c, d;
} Registers;

typedef struct {
  const char *name;
  int is_amd, has_avx512;
  uint32_t signature;  // family, model and stepping, as leaf 1 gives them
  int l1_kib, l1_ways, l2_kib, l2_ways, l3_kib;
} Processor;

static const Processor PROCESSORS[] = {
    {"milan", 1, 0, 0x00A00F11, 32, 8, 512, 8, 32768},
    {"genoa", 1, 1, 0x00A10F11, 32, 8, 1024, 8, 32768},
    {"skylake", 0, 0, 0x000906EA, 32, 8, 256, 4, 8192},  // the client processor, without AVX-512
    {"icelake", 0, 1, 0x000606A6, 48, 12, 1280, 20, 8192},
};
static const Processor *shown;

static int allow_cpuid(int on) { return (int)syscall(SYS_arch_prctl, ARCH_SET_CPUID, on); }

static Registers ask(uint32_t leaf, uint32_t part) {
  Registers r;
  __asm__ volatile("cpuid" : "=a"(r.a), "=b"(r.b), "=c"(r.c), "=d"(r.d) : "a"(leaf), "c"(part));
  return r;
}

// One cache of 64-byte lines: type 1 data, 2 instructions, 3 both.
static Registers describe_cache(int type, int level, int kib, int ways, int cores) {
  Registers r = {type | level << 5 | 1 << 8 | (uint32_t)(cores - 1) << 14,
                 (uint32_t)(ways - 1) << 22 | 63, kib * 1024 / 64 / ways - 1, 0};
  return r;
}

static Registers list_caches(uint32_t part) {
  Registers none = {0, 0, 0, 0};
  switch (part) {
    case 0: return describe_cache(1, 1, shown->l1_kib, shown->l1_ways, 1);
    case 1: return describe_cache(2, 1, 32, 8, 1);
    case 2: return describe_cache(3, 2, shown->l2_kib, shown->l2_ways, 1);
    case 3: return describe_cache(3, 3, shown->l3_kib, 16, 2);
  }
  return none;
}

static Registers name_vendor(Registers r, uint32_t last_leaf) {
  const char *name = shown->is_amd ? "AuthenticAMD" : "GenuineIntel";  // in the order b, d, c
  r.a = last_leaf;
  memcpy(&r.b, name, 4);
  memcpy(&r.d, name + 4, 4);
  memcpy(&r.c, name + 8, 4);
  return r;
}

static Registers list_features(Registers r) {
  if (!shown->has_avx512) {
    r.b &= ~(1u << 16 | 1u << 17 | 1u << 21 | 1u << 26 | 1u << 27 | 1u << 28 | 1u << 30 | 1u << 31);
    r.c &= ~(1u << 1 | 1u << 6 | 1u << 11 | 1u << 12 | 1u << 14);
  }
  r.b &= ~(1u << 4 | 1u << 11);                          // transactional memory
  r.d &= ~(1u << 22 | 1u << 23 | 1u << 24 | 1u << 25);  // AMX, AVX-512 of half precision
  return r;
}

static Registers answer(uint32_t leaf, uint32_t part) {
  Registers r = ask(leaf, part), none = {0, 0, 0, 0};
  switch (leaf) {
    case 0: return name_vendor(r, r.a > 0x10 ? 0x10 : r.a);
    case 1: r.a = shown->signature; return r;
    case 2: return none;
    case 4: return shown->is_amd ? none : list_caches(part);
    case 7: return part == 0 ? list_features(r) : none;
    case 0x19: case 0x1d: case 0x1e: return none;
    case 0x80000006:
      r.c = (uint32_t)shown->l2_kib << 16 | 6 << 12 | 1 << 8 | 64;
      return r;
  }
  if (!shown->is_amd) return r;
  switch (leaf) {
    case 0x80000000: return name_vendor(r, 0x80000023);
    case 0x80000001: r.a = shown->signature; r.c |= 1u << 22; return r;  // cache leaf 0x8000001d
    case 0x80000005:
      r.a = r.b = 0;
      r.c = r.d = (uint32_t)shown->l1_kib << 24 | 8 << 16 | 1 << 8 | 64;
      return r;
    case 0x80000008: r.c = 1; return r;  // two cores
    case 0x8000001D: return list_caches(part);
    case 0x8000001E: return none;
  }
  return r;
}

static void on_fault(int number, siginfo_t *info, void *context) {
  greg_t *g = ((ucontext_t *)context)->uc_mcontext.gregs;
  const unsigned char *instruction = (const void *)g[REG_RIP];
  (void)number, (void)info;
  if (instruction[0] != 0x0f || instruction[1] != 0xa2) {  // a real fault, not cpuid
    signal(SIGSEGV, SIG_DFL);
    return;
  }
  allow_cpuid(1);
  Registers r = answer((uint32_t)g[REG_RAX], (uint32_t)g[REG_RCX]);
  allow_cpuid(0);
  g[REG_RAX] = r.a, g[REG_RBX] = r.b, g[REG_RCX] = r.c, g[REG_RDX] = r.d;
  g[REG_RIP] += 2;
}

__attribute__((constructor(101))) static void start(void) {
  const char *name = getenv("FAKECPU");
  for (unsigned i = 0; name && i < sizeof PROCESSORS / sizeof *PROCESSORS; i++)
    if (!strcmp(name, PROCESSORS[i].name)) shown = &PROCESSORS[i];
  if (!shown) return;  // an unknown name shows the processor as it is
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGSEGV, &action, 0);
  if (allow_cpuid(0) == 0) return;
  static const char message[] = "fakecpu: this processor or kernel has no CPUID faulting\n";
  if (write(2, message, sizeof message - 1)) _exit(3);
}
