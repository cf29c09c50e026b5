//! `evenkeel node`: what stands beside storage. It speaks S3 on its data port and JSON over HTTP on its control port.

mod control;
mod front;
pub mod gate;
mod maintainer;
pub(crate) mod server;
pub mod store;
pub mod up;

pub use front::Peers;
pub use maintainer::Upkeep;
pub use server::{Node, Settings, StartError, Tls, signalled, tell_systemd};
