/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The types, helpers and macros of the kernel that watch.c uses. Numbers of helpers and map types
 * belong to the kernel's stable interface (include/uapi/linux/bpf.h). */

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define UINT(name, value) int(*name)[value]
#define TYPE(name, value) typeof(value) *name

enum {
	MAP_HASH = 1,
	MAP_ARRAY = 2,
	MAP_RINGBUF = 27,

	MMAPABLE = 1024,

	NOEXIST = 1,
};

#define PF_KTHREAD 0x00200000

/* Only these fields, which the loader finds in the kernel's type information. */
struct task_struct {
	unsigned int flags;
	int nr_cpus_allowed;
	int pid;
} __attribute__((preserve_access_index));

/* Arguments of the tracepoint: /sys/kernel/tracing/events/sched/sched_switch/format. */
struct sched_switch {
	u64 common;
	char prev_comm[16];
	int prev_pid;
	int prev_prio;
	long prev_state;
	char next_comm[16];
	int next_pid;
	int next_prio;
};

static void *(*map_lookup)(const void *map, const void *key) = (void *)1;
static long (*map_update)(const void *map, const void *key, const void *value, u64 flags) = (void *)2;
static u64 (*ktime_get_ns)(void) = (void *)5;
static u32 (*get_smp_processor_id)(void) = (void *)8;
static u64 (*get_current_pid_tgid)(void) = (void *)14;
static long (*get_current_comm)(void *buf, u32 size) = (void *)16;
static u64 (*get_current_cgroup_id)(void) = (void *)80;
static u64 (*get_current_ancestor_cgroup_id)(int level) = (void *)123;
static long (*ringbuf_output)(void *ring, void *data, u64 size, u64 flags) = (void *)130;
