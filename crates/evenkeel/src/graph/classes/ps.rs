//! `ps`: colours drawn at random, in rounds.
//!
//! Paper 000 §5.2 (Panconesi and Srinivasan): each phase has as many fresh colours as the largest remaining degree.
//! Each client gives its edges distinct colours at random. Each server keeps one edge of each colour, at random, and
//! rejects the others, about 1/e of them. That adds up to e/(e − 1) ≈ 1.58 times the largest degree. When that degree
//! has come down to log^(1+ε) n, each remaining edge takes the first colour that is free at both ends, one of fewer
//! than twice the degree. We take ε = 0, so that the colours used at a node fit one word. Deviation: colours that no
//! server kept are dropped.

use super::Edge;
use crate::draw::Draw;
use crate::graph::sets::bits::Bits;

const NONE: u32 = u32::MAX;

/// The class of each edge, drawn at random.
pub(crate) fn ps(edges: &[Edge], n_clients: usize, n_servers: usize, draw: &mut dyn Draw) -> Vec<u32> {
    // Numbered by client, so that the edges of a client are adjacent.
    let mut order: Vec<u32> = (0..edges.len() as u32).collect();
    order.sort_by_cached_key(|&edge| edges[edge as usize].client);
    let clients: Vec<u32> = order.iter().map(|&edge| edges[edge as usize].client).collect();
    let servers: Vec<u32> = order.iter().map(|&edge| edges[edge as usize].server).collect();
    let (client, server) = (|edge: u32| clients[edge as usize], |edge: u32| servers[edge as usize]);
    let mut by_client: Vec<u32> = (0..edges.len() as u32).collect();
    let mut by_server = by_client.clone();
    by_server.sort_by_cached_key(|&edge| server(edge));
    let few = (n_clients + n_servers).next_power_of_two().ilog2();
    let mut classes = vec![0; edges.len()];
    let mut coloured = Bits::none(edges.len());
    let mut n_classes = 0;
    let mut tentative = vec![0; edges.len()];
    loop {
        let of_clients = by_client.chunk_by(|&a, &b| client(a) == client(b));
        let of_servers = by_server.chunk_by(|&a, &b| server(a) == server(b));
        let degrees = of_clients.clone().chain(of_servers.clone()).map(<[u32]>::len);
        let degree = degrees.max().unwrap_or(0) as u32;
        if degree <= few {
            break;
        }
        let mut palette: Vec<u32> = (0..degree).collect();
        for of_client in of_clients {
            for (k, &edge) in (0..).zip(of_client) {
                palette.swap(k as usize, (k + draw.below(degree - k)) as usize);
                tentative[edge as usize] = palette[k as usize];
            }
        }
        let mut lots = vec![Lot { n_edges: 0, kept: NONE }; degree as usize];
        let mut is_used = vec![false; degree as usize];
        for of_server in of_servers {
            for &edge in of_server {
                let lot = &mut lots[tentative[edge as usize] as usize];
                lot.n_edges += 1;
                if draw.below(lot.n_edges) == 0 {
                    lot.kept = edge;
                }
            }
            for &edge in of_server {
                let colour = tentative[edge as usize];
                let lot = &mut lots[colour as usize];
                lot.n_edges = 0;
                if lot.kept == edge {
                    classes[edge as usize] = colour;
                    coloured.insert(edge);
                    is_used[colour as usize] = true;
                }
            }
        }
        // Fresh colours come after those of earlier phases.
        let mut names = vec![NONE; degree as usize];
        for (name, _) in names.iter_mut().zip(is_used).filter(|(_, is_used)| *is_used) {
            *name = n_classes;
            n_classes += 1;
        }
        for &edge in by_client.iter().filter(|&&edge| coloured.has(edge)) {
            classes[edge as usize] = names[classes[edge as usize] as usize];
        }
        by_client.retain(|&edge| !coloured.has(edge));
        by_server.retain(|&edge| !coloured.has(edge));
    }
    // Edges have fewer than 2 · 33 colours to choose from.
    let (mut used_by_client, mut used_by_server) = (vec![0_u128; n_clients], vec![0_u128; n_servers]);
    for edge in by_client {
        let of_client = &mut used_by_client[client(edge) as usize];
        let of_server = &mut used_by_server[server(edge) as usize];
        let colour = (*of_client | *of_server).trailing_ones();
        *of_client |= 1 << colour;
        *of_server |= 1 << colour;
        classes[edge as usize] = n_classes + colour;
    }
    let mut by_edge = vec![0; edges.len()];
    order.iter().zip(classes).for_each(|(&edge, class)| by_edge[edge as usize] = class);
    by_edge
}

/// The edges of one tentative colour at a server.
#[derive(Clone, Copy)]
struct Lot {
    n_edges: u32,
    kept: u32,
}
