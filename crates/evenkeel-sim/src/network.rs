//! Flows between hosts that share the hosts' network cards.
