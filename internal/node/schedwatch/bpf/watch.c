/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Counts, at each switch on a watched CPU, the task that leaves the CPU, if it does not belong to
 * an owner of the CPU. The user space side is in the Go files of the folder above. */

#include "kernel.h"

/* Kinds of foreign tasks, as in types.go. */
enum { USER, BOUND_KERNEL, OTHER_KERNEL, UNKNOWN, KINDS };

#define ROOT_CGROUP 1 /* its id, in every kernel with cgroup v2 */
#define MAX_LEVEL 15 /* a cgroup below this level belongs to an owner at or above it, or is foreign */
#define REPORT_INTERVAL 10000000000ULL

/* State and counts of a CPU. Only the CPU itself writes them, except for since. At a switch,
 * interrupts are off, so one run of the program ends before the next one. */
struct cpu {
	u64 since; /* begin of the watch; 0 without an owner. User space writes it */
	u64 last; /* the last switch */
	u64 seen; /* number of switches */
	u32 next; /* the thread that runs since then */
	u32 lost; /* foreign switches without a row */
	u64 ns[KINDS];
	u64 switches[KINDS];
	u64 reported[KINDS]; /* time of the last report */
};

struct {
	UINT(type, MAP_ARRAY);
	UINT(map_flags, MMAPABLE);
	UINT(max_entries, 1); /* set by the loader */
	TYPE(key, u32);
	TYPE(value, struct cpu);
} cpus SEC(".maps");

struct owner {
	u64 cgroup;
	u64 cpu;
};

struct {
	UINT(type, MAP_HASH);
	UINT(max_entries, 1); /* set by the loader */
	TYPE(key, struct owner);
	TYPE(value, u8);
} owners SEC(".maps");

struct key {
	u64 cgroup;
	u32 cpu;
	u32 kind;
	char comm[16];
};

struct row {
	u64 ns;
	u64 switches;
	u32 pid;
	u32 tgid;
};

struct {
	UINT(type, MAP_HASH);
	UINT(max_entries, 4096);
	TYPE(key, struct key);
	TYPE(value, struct row);
} rows SEC(".maps");

struct report {
	struct key key;
	struct row row;
	u64 since; /* the watch in which the task ran: user space knows its owner */
};

struct {
	UINT(type, MAP_RINGBUF);
	UINT(max_entries, 4096); /* at least a page; set by the loader */
} reports SEC(".maps");

/* Reports whether current belongs to an owner of the CPU. */
INLINE int is_owner(u64 cpu, u64 cgroup)
{
	struct owner key = {.cgroup = cgroup, .cpu = cpu};

	if (map_lookup(&owners, &key))
		return 1;
	for (int level = 1; level <= MAX_LEVEL; level++) {
		key.cgroup = get_current_ancestor_cgroup_id(level);
		if (key.cgroup == 0 || key.cgroup == cgroup)
			return 0;
		if (map_lookup(&owners, &key))
			return 1;
	}
	return 0;
}

/* Adds a slice of current to the row of its cgroup, command and kind, and reports it. */
INLINE void count(struct cpu *c, u32 cpu, u32 kind, u64 cgroup, u64 since, u64 now, u64 ns)
{
	struct report r = {.key = {.cgroup = cgroup, .cpu = cpu, .kind = kind}, .row = {.ns = ns, .switches = 1}, .since = since};
	u64 id = get_current_pid_tgid();
	struct row *row;

	r.row.pid = id;
	r.row.tgid = id >> 32;
	get_current_comm(r.key.comm, sizeof(r.key.comm));

	row = map_lookup(&rows, &r.key);
	if (row) {
		row->ns += ns;
		row->switches++;
		row->pid = r.row.pid;
		row->tgid = r.row.tgid;
	} else if (map_update(&rows, &r.key, &r.row, NOEXIST)) {
		c->lost++;
	}
	if (kind == BOUND_KERNEL || (c->reported[kind] && now - c->reported[kind] < REPORT_INTERVAL))
		return;
	c->reported[kind] = now;
	ringbuf_output(&reports, &r, sizeof(r), 0);
}

/* prev_kind is KINDS if the kind has to be found by the cgroup: tasks in the root cgroup can be
 * kernel threads, and tasks in other cgroups belong to processes. */
INLINE int on_switch(u32 pid, u32 prev_kind, u32 next)
{
	u32 cpu = get_smp_processor_id();
	struct cpu *c = map_lookup(&cpus, &cpu);
	u64 since, start, now, cgroup, ns;

	if (!c)
		return 0;
	since = *(volatile u64 *)&c->since;
	if (!since)
		return 0;
	now = ktime_get_ns();
	start = c->last > since ? c->last : since;
	c->last = now;
	c->next = next;
	c->seen++;
	if (pid == 0) /* the idle task */
		return 0;
	cgroup = get_current_cgroup_id();
	if (is_owner(cpu, cgroup))
		return 0;

	/* A handover may be in progress. User space writes since = 0, the owners, and a new since. With
	 * full barriers around the second look at the owners, both looks at since find the same value
	 * only if the owners belong to it. */
	if (__sync_fetch_and_add(&c->since, 0) != since || is_owner(cpu, cgroup) || __sync_fetch_and_add(&c->since, 0) != since)
		return 0;

	if (prev_kind == KINDS)
		prev_kind = cgroup == ROOT_CGROUP ? UNKNOWN : USER;
	if (prev_kind >= KINDS)
		return 0;
	ns = now > start ? now - start : 0;
	c->ns[prev_kind] += ns;
	c->switches[prev_kind]++;
	count(c, cpu, prev_kind, cgroup, since, now, ns);
	return 0;
}

/* For kernels with type information. Arguments: preempt, prev, next. */
SEC("tp_btf/sched_switch")
int with_btf(u64 *ctx)
{
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	u32 kind = USER;

	if (prev->flags & PF_KTHREAD)
		kind = prev->nr_cpus_allowed == 1 ? BOUND_KERNEL : OTHER_KERNEL;
	return on_switch(prev->pid, kind, next->pid);
}

SEC("tracepoint/sched/sched_switch")
int without_btf(struct sched_switch *ctx)
{
	return on_switch(ctx->prev_pid, KINDS, ctx->next_pid);
}

char _license[] SEC("license") = "Dual BSD/GPL";
