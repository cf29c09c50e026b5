//! What brokers and Kafka's own tools may say, for fuzzing: an error or an answer, never a panic.

use super::files;
use super::live::partitions;
use super::messages::{
    AlterPartitionReassignments, ApiVersions, DescribeConfigs, DescribeLogDirs, ElectLeaders,
    ListPartitionReassignments, Metadata, Request, SaslAuthenticate, SaslHandshake,
};
use super::state::{Cluster, Weights};
use super::wire::Reader;
use crate::lead::is_sound;

/// An answer of a broker, of each kind. Returns whether what passes fits together.
pub fn answers(bytes: &[u8]) -> bool {
    fn read<R: Request>(bytes: &[u8]) -> Option<R::Answer> {
        R::read(&mut Reader::of(bytes, R::IS_COMPACT)).ok()
    }
    read::<ApiVersions>(bytes);
    read::<SaslHandshake>(bytes);
    read::<SaslAuthenticate>(bytes);
    read::<DescribeLogDirs>(bytes);
    read::<ListPartitionReassignments>(bytes);
    read::<AlterPartitionReassignments>(bytes);
    read::<ElectLeaders>(bytes);
    read::<DescribeConfigs>(bytes);
    let Some(Ok(partitions)) = read::<Metadata<'_>>(bytes).map(partitions) else { return true };
    is_sound(&Cluster { partitions, ..Cluster::default() }.look(&Weights::Equal, Vec::new()))
}

/// What Kafka's own tools print, and rates. Returns whether what passes fits together.
pub fn files(text: &str) -> bool {
    let rates = files::rates(text).ok();
    let Ok(cluster) = files::topics(text) else { return true };
    let held = files::log_dirs(text).unwrap_or_default();
    let weights = rates.unwrap_or_else(|| files::bytes(&held, &cluster.partitions));
    is_sound(&cluster.look(&Weights::Known(weights), Vec::new()))
}
