//! Edge colourings that are simpler than the shortest, as paper 000 §5 names them. Each puts the edges of a bipartite
//! multigraph into classes, with no node twice in a class.
//!
//! [`hdf`] and [`hcdf`] (Jain et al.) fill one class after the other greedily; [`ps()`] (Panconesi and Srinivasan)
//! draws at random. All count classes from 0 and leave none empty. A node with several slots is treated as several
//! nodes.

mod greedy;
mod lines;
mod ps;

pub(crate) use greedy::{hcdf, hdf};
pub(crate) use ps::ps;

/// A transfer between a client and a server. The nodes of each side are numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Edge {
    /// Its client.
    pub client: u32,
    /// Its server.
    pub server: u32,
    /// The number of blocks.
    pub blocks: u64,
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;

    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;
    use crate::draw::{Draw, Seeded};

    type Greedy = fn(&[Edge], usize, usize, Option<u64>) -> Vec<u32>;
    type Urgency = fn(u64, u64) -> u64;

    const GREEDY: [(Greedy, Urgency); 2] = [(hdf, u64::max), (hcdf, |a, b| a + b)];

    fn edge(client: u32, server: u32, blocks: u64) -> Edge {
        Edge { client, server, blocks }
    }

    fn random_graph(n_clients: u32, n_servers: u32, n_edges: usize, seed: u64) -> Vec<Edge> {
        let mut draw = Seeded::new(seed);
        (0..n_edges).map(|_| edge(draw.below(n_clients), draw.below(n_servers), 1)).collect()
    }

    /// The largest number of edges at a node.
    fn max_degree(edges: &[Edge]) -> usize {
        let longest = |mut nodes: Vec<u32>| {
            nodes.sort_unstable();
            nodes.chunk_by(|a, b| a == b).map(<[u32]>::len).max().unwrap_or(0)
        };
        let clients = longest(edges.iter().map(|e| e.client).collect());
        clients.max(longest(edges.iter().map(|e| e.server).collect()))
    }

    /// The sizes of the classes, after checking that no node is twice in a class and no class is empty.
    fn checked(edges: &[Edge], classes: &[u32]) -> Vec<usize> {
        assert_eq!(edges.len(), classes.len());
        let mut ends = Vec::new();
        for (edge, &class) in edges.iter().zip(classes) {
            ends.extend([(class, 0, edge.client), (class, 1, edge.server)]);
        }
        ends.sort_unstable();
        assert!(ends.windows(2).all(|w| w[0] != w[1]), "a node twice in a class");
        let of_classes: Vec<_> = ends.chunk_by(|a, b| a.0 == b.0).collect();
        assert!((0..).zip(&of_classes).all(|(k, class): (u32, _)| class[0].0 == k), "an empty class");
        of_classes.iter().map(|class| class.len() / 2).collect()
    }

    /// The definition: class by class, repeatedly takes the most urgent edge whose ends are both free.
    fn by_definition(edges: &[Edge], limit: Option<u64>, urgency: Urgency) -> Vec<u32> {
        let mut classes = vec![u32::MAX; edges.len()];
        for class in 0.. {
            let left: Vec<usize> = (0..edges.len()).filter(|&e| classes[e] == u32::MAX).collect();
            if left.is_empty() {
                break;
            }
            let degree = |is_at: &dyn Fn(&Edge) -> bool| -> u64 {
                left.iter().map(|&e| &edges[e]).filter(|e| is_at(e)).map(|e| e.blocks.max(1)).sum()
            };
            let mut by_urgency: Vec<_> = left
                .iter()
                .map(|&e| {
                    let Edge { client, server, .. } = edges[e];
                    let degrees = (degree(&|e| e.client == client), degree(&|e| e.server == server));
                    (Reverse(urgency(degrees.0, degrees.1)), client, server, e)
                })
                .collect();
            by_urgency.sort_unstable();
            let (mut clients, mut servers) = (Vec::new(), Vec::new());
            for (_, client, server, e) in by_urgency {
                let is_free = !clients.contains(&client) && !servers.contains(&server);
                if is_free && limit.is_none_or(|limit| (clients.len() as u64) < limit) {
                    classes[e] = class;
                    clients.push(client);
                    servers.push(server);
                }
            }
        }
        classes
    }

    /// Random multigraphs, some with a hub on either side, half of them of unit blocks.
    fn graphs() -> impl Strategy<Value = Vec<Edge>> {
        (1..=9_u32, 1..=9_u32, 0..=80_usize, 1..=6_u64, 0..=2_u32, any::<bool>()).prop_flat_map(
            |(n_clients, n_servers, n_edges, blocks, hub, is_unit)| {
                let blocks = if is_unit { 1..=1 } else { 0..=blocks };
                let edge = (0..n_clients, 0..n_servers, blocks, any::<bool>()).prop_map(
                    move |(client, server, blocks, is_at_hub)| match hub {
                        1 if is_at_hub => edge(n_clients / 2, server, blocks),
                        2 if is_at_hub => edge(client, n_servers / 2, blocks),
                        _ => edge(client, server, blocks),
                    },
                );
                vec(edge, 0..=n_edges)
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1500) })]

        /// The fast form equals the definition, whatever the weights and the limit, and stays within the bounds. Nodes
        /// without edges only decide which side bids.
        #[test]
        fn greedy_is_its_definition(
            edges in graphs(),
            limit in proptest::option::of(1..=6_u64),
            (n_clients, n_servers) in select(&[(9, 9), (9, 50), (50, 9)][..]),
        ) {
            for (greedy, urgency) in GREEDY {
                let classes = greedy(&edges, n_clients, n_servers, limit);
                prop_assert_eq!(&classes, &by_definition(&edges, limit, urgency));
                let sizes = checked(&edges, &classes);
                let most = limit.unwrap_or(u64::MAX);
                prop_assert!(sizes.iter().all(|&size| size as u64 <= most));
                if edges.iter().all(|edge| edge.blocks == 1) {
                    let full = limit.map_or(0, |limit| edges.len() / limit as usize);
                    prop_assert!(sizes.len() <= full + (2 * max_degree(&edges)).saturating_sub(1));
                }
            }
        }

        #[test]
        fn lots_are_valid_and_repeatable(edges in graphs(), seed in 0..1000_u64) {
            let classes = ps(&edges, 10, 10, &mut Seeded::new(seed));
            checked(&edges, &classes);
            prop_assert_eq!(classes, ps(&edges, 10, 10, &mut Seeded::new(seed)));
        }
    }

    /// Lines of several blocks, with outdated bounds, and bidders on both sides.
    #[test]
    fn long_lines_are_searched_as_by_definition() {
        let mut draw = Seeded::new(5);
        for (n_clients, n_servers, n_edges) in [(3, 300, 700), (300, 3, 700), (120, 120, 300), (40, 70, 900)]
        {
            let mut edges = random_graph(n_clients, n_servers, n_edges, 6);
            // Hubs on both sides.
            edges.iter_mut().step_by(3).for_each(|edge| edge.client = 1);
            edges.iter_mut().skip(1).step_by(3).for_each(|edge| edge.server = 2);
            for (is_unit, limit) in [(true, None), (false, None), (false, Some(2)), (true, Some(5))] {
                edges
                    .iter_mut()
                    .for_each(|edge| edge.blocks = if is_unit { 1 } else { draw.below(9).into() });
                for (greedy, urgency) in GREEDY {
                    let classes = greedy(&edges, n_clients as usize, n_servers as usize, limit);
                    assert_eq!(classes, by_definition(&edges, limit, urgency));
                }
            }
        }
    }

    #[test]
    fn nothing_and_one_edge() {
        for edges in [vec![], vec![edge(2, 1, 0)], vec![edge(2, 1, u64::MAX)]] {
            for (greedy, _) in GREEDY {
                assert_eq!(greedy(&edges, 3, 2, None), vec![0; edges.len()]);
                assert_eq!(greedy(&edges, 3, 2, Some(1)), vec![0; edges.len()]);
            }
            assert_eq!(ps(&edges, 3, 2, &mut Seeded::new(1)), vec![0; edges.len()]);
        }
        assert!(hdf(&[], 0, 0, None).is_empty() && ps(&[], 0, 0, &mut Seeded::new(1)).is_empty());
    }

    /// Totals beyond 64 bits do not fail.
    #[test]
    fn huge_blocks() {
        let edges = [edge(0, 0, u64::MAX), edge(0, 1, u64::MAX), edge(1, 1, u64::MAX), edge(1, 0, 1)];
        for (greedy, _) in GREEDY {
            assert_eq!(checked(&edges, &greedy(&edges, 2, 2, None)).len(), 2);
        }
    }

    /// A hub takes one class for each edge, and no more time than that: the highest weight first, then the lowest id.
    #[test]
    fn stars() {
        let n = 20_000;
        let to_server: Vec<Edge> = (0..n).map(|client| edge(client, 0, u64::from(client % 2) + 1)).collect();
        let to_client: Vec<Edge> = to_server.iter().map(|e| edge(0, e.client, e.blocks)).collect();
        let both: Vec<Edge> = to_server.iter().copied().chain(to_client.iter().copied().skip(1)).collect();
        for edges in [&to_server, &to_client, &both] {
            for (greedy, _) in GREEDY {
                assert_eq!(checked(edges, &greedy(edges, n as usize, n as usize, None)).len(), n as usize);
            }
            let n_classes = checked(edges, &ps(edges, n as usize, n as usize, &mut Seeded::new(2))).len();
            assert!(n_classes >= n as usize && n_classes < 2 * n as usize);
        }
        let classes = hdf(&to_server, n as usize, 1, None);
        assert!((0..n).eq(classes), "all have the degree of the hub");
        let classes = hcdf(&to_server, n as usize, 1, None);
        assert_eq!(classes[..4], [n / 2, 0, n / 2 + 1, 1]);
    }

    /// A large graph: the greedy colourings stay close to the largest degree, the random one near e/(e − 1) times it.
    #[test]
    fn lengths_on_a_large_graph() {
        let edges = random_graph(150, 150, 60_000, 7);
        let degree = max_degree(&edges);
        for (greedy, _) in GREEDY {
            let n_classes = checked(&edges, &greedy(&edges, 150, 150, None)).len();
            assert!(n_classes <= degree + degree / 20, "{n_classes} classes, degree {degree}");
        }
        let n_classes = checked(&edges, &ps(&edges, 150, 150, &mut Seeded::new(3))).len();
        assert!(4 * n_classes <= 7 * degree + 160, "{n_classes} classes, degree {degree}");
        assert!(2 * n_classes >= 3 * degree, "{n_classes} classes, degree {degree}");
    }
}
