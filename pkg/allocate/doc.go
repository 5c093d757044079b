// Package allocate chooses CPUs for one owner at a time.
//
// It is a function of the machine, what is free and the request: no clock, no
// state, no order of earlier calls. [Machine] is a topology in the form that the
// search needs, made once and shared; [Supply] is what there is to choose from;
// [Supply.Take] takes CPUs out of it or returns a [Refusal] and leaves it as it is.
// [Machine.Shape] measures any set of CPUs in the terms that are made small here.
//
// # Order
//
// Of all ways to take what is asked for, the best has, in this order
//
//  1. the fewest cores in part, of which the owner then has some threads and not
//     all: threads of one core disturb each other more than anything else does;
//  2. the fewest NUMA nodes;
//  3. the fewest packages;
//  4. the fewest last-level caches;
//  5. the fewest nodes, then packages, then caches where neither the owner nor its
//     companions (Near), nor its devices (Nodes), are: containers of a pod attract
//     each other, at the cost of nothing above;
//  6. the shortest distance between the nodes;
//  7. the fewest whole cores broken up: an odd thread comes from a core that is
//     split already, which keeps cores whole for those who come later;
//  8. the fewest CPUs left in the nodes, then in the caches, that it touches: the
//     fullest that fit are filled up, and large requests find empty ones;
//  9. the lowest numbers.
//
// All is counted over what the owner has afterwards. An owner that grows first
// gets what is free of the cores of which it has a part, those first that it then
// has as a whole.
//
// Cores in part come first because the kubelet takes whole cores wherever they
// are (takeByTopologyNUMAPacked in pkg/kubelet/cm/cpumanager/cpu_assignment.go):
// any other order would split more cores than it does. Among the choices that
// split as few, the order is that of the machine. Who needs one node above all
// has the topology policy.
//
// # Options
//
// The first five have the kubelet's names and meaning (policy_options.go there),
// without its defects.
//
//   - full-pcpus-only: only cores that are wholly free, or of which the owner has
//     the rest. Numbers that are no multiple of the threads of a core are refused,
//     on a machine with cores of several sizes, those that no whole cores add up
//     to. The kubelet only counts, and gives out fragments when there is enough of
//     them.
//   - distribute-cpus-across-numa: even shares from the fewest nodes that can give
//     them, or from as many nodes as the hint has; with full-pcpus-only in units of
//     the threads of a core. Even shares come before few nodes and before whole cores.
//     Shares are even to a CPU; the kubelet's differ by a group of CPUs. With
//     full-pcpus-only, whole cores come before both. What an even share leaves over goes where it splits the fewest cores, and then to as many
//     nodes as possible. Among sets of nodes: fewest cores in part, the most even,
//     fewest packages, caches, then what leaves the machine most even, then
//     distance. Where no number of nodes can give even shares, the order above
//     holds. With align-by-socket the packages come first, and a full node may give
//     less than the others.
//   - align-by-socket: packages before nodes. A hint stands for the packages of its
//     nodes; its nodes themselves come first in them.
//   - distribute-cpus-across-cores: one thread of each core, as far as that is
//     possible in the fewest packages; cores that are wholly free first; then the
//     fewest nodes. A request that is as large as a package or a node that is
//     wholly free takes it, as with the kubelet. Where the topology policy bounds
//     the nodes, nodes come first.
//   - prefer-align-cpus-by-uncorecache: caches before nodes (2) and packages (3),
//     because the kubelet takes whole caches wherever they are. Inside of a node
//     caches are always kept together. With align-by-socket packages stay first.
//   - one-owner-per-core: only cores of which nobody else has a part, that is, of
//     which all online threads are free or the owner's. The threads that are not
//     asked for leave the supply too: nobody but the owner may have them.
//   - isolated-cpus: require takes only CPUs that the kernel isolates since boot;
//     prefer takes all from them, or where that is not possible forgets about it: a
//     container on both sorts would be balanced on half of its CPUs. Avoid is the
//     reverse of prefer.
//   - core-type: likewise for one kind of core, on hybrid machines. What is
//     preferred is tried as a must, first with isolated-cpus, then without.
//
// # Topology policies
//
// Nodes is the hint: the nodes of devices and memory. The policies are those of
// the kubelet's topology manager (pkg/kubelet/cm/topologymanager).
//
//   - none: hints count for nothing.
//   - best-effort, the default: all from the hinted nodes; where they have too
//     little, all that they have and the rest from others.
//   - restricted: where the hinted nodes have enough CPUs on the empty machine, all
//     come from there, or the request is refused. Without a hint, or with one that
//     could never be met, it is refused when it needs more nodes (packages with
//     align-by-socket) than it would on the empty machine.
//   - single-numa-node: all from one node, and one of the hinted ones if there are
//     any, or the request is refused.
//
// Within these bounds the order above holds. An owner that is in more nodes
// already may grow in them.
//
// # Bounds
//
// Sets of nodes are tried from small to large, and in each set the caches. Caches that are
// alike count once. Both share the bound maxCombinations. Within it the search is exhaustive,
// as for most requests on machines with up to 15 nodes. Ragged supplies with many different
// caches reach the bound on smaller machines. Beyond it the best choice so far counts, or the
// emptiest nodes and caches are taken until there is enough. Then the search leaves out single
// caches that are not necessary. Nodes, packages and caches may be more than necessary. Cores in part are the fewest also beyond the bound, where the numbers
// of threads of the cores divide one another: with up to two threads always, with four or
// eight while all of them are online. Even shares are weighed within the same bound and within
// maxSteps. Beyond it only the largest nodes are weighed, and the remainder of an even share
// goes from node to node.
package allocate
