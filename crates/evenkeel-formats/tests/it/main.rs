//! Tests of the formats: what the readers do with damaged input, and what the crate depends on.

mod dependencies;
mod readers;
