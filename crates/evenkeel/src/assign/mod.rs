//! Which process does each task, so that it finds its data on its own host? Paper 003.
//!
//! Each task reads one or several inputs, each a chunk with copies on some servers. Each process runs on the host of a
//! server, or on another host. What a process reads from its own host is *local*. A policy gives every task to a
//! process, and names the server that each input is read from.
//!
//! * [`Work`] – tasks, inputs and processes; [`Assignment`] – the answer; [`Measures`] – how good it is.
//! * [`rank`] – blocks of tasks by rank, as `ParaView` does (§2).
//! * [`opass_single`] – one input per task: as many as possible local, by maximum flow (§4.2).
//! * [`opass_multi`] – several inputs: processes propose to tasks (§4.3, Algorithm 1); [`opass_exact`] – the optimum.
//! * [`opass_dynamic`] – lists that guide processes that ask for one task after another (§4.4).
//! * [`Work::beside`] – several tenants: servers that have other work, too (§4.5).
//! * [`odds`] – how many reads are local without planning (§3).

mod answer;
mod fill;
pub mod odds;
pub mod opass_dynamic;
pub mod opass_exact;
pub mod opass_multi;
pub mod opass_single;
pub mod rank;
mod sources;
mod work;

pub use answer::{Assignment, Measures};
pub use sources::{balanced, drawn};
pub use work::{MAX_INPUTS, ProcessId, Work, WorkBuilder, WorkError};

/// Why a policy has no answer for some work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum Unfit {
    #[error(
        "task {0} has several inputs, but opass-single allows one per task; use opass-multi or opass-exact"
    )]
    SeveralInputs(u32),
}
