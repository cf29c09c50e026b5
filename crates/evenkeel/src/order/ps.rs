//! `ps`: clients give their transfers random slots, servers keep one transfer for each slot, and the rest try again.
//!
//! Panconesi and Srinivasan, as paper 000 §5.2 describes it; it can run without a central scheduler. Each phase has as
//! many new slots as the largest remaining degree. That makes about 1.58 times the largest degree in total (the paper
//! prints its bounds with one symbol for two things), and fewer where servers are not full. Once the degree is at most
//! log₂ of the number of nodes, each transfer takes the first slot that is free at both ends. Slots that stay empty are
//! dropped.

use super::classes::of_classes;
use crate::draw::Draw;
use crate::graph::classes;
use crate::model::{Batch, Choice, Cluster, Grant};

/// The parts of a choice, by the slot that each was given.
pub fn order(batch: &Batch, cluster: &Cluster, choice: &Choice, draw: &mut dyn Draw) -> Vec<Grant> {
    of_classes(batch, cluster, choice, |edges, [n_clients, n_servers]| {
        classes::ps(edges, n_clients, n_servers, draw)
    })
}
