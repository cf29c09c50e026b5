//! Small containers of numbers, flat in memory.

pub(crate) mod bits;
pub(crate) mod heap;
pub(crate) mod holdings;
pub(crate) mod pool;
pub(crate) mod shrinking;
