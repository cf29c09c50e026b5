//! The servers of a cluster, with ids that outlive a batch.

use super::{ModelError, NameTable};

/// A server of a cluster. Its number is never reused, whichever servers join or leave: state that outlives a batch
/// refers to servers by it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberId(pub u32);

impl MemberId {
    /// The id as an array index.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// All servers that a cluster has ever had, by name.
#[derive(Clone, Debug, Default)]
pub struct Members {
    names: NameTable,
}

impl Members {
    /// The members with these names, numbered from 0, as a snapshot of [`names`](Self::names) has them.
    pub fn restore<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Self, ModelError> {
        let mut members = Self::default();
        names.into_iter().try_for_each(|name| members.names.insert(name, "server"))?;
        Ok(members)
    }

    /// The number of a server. A new server gets the next number.
    pub fn join(&mut self, name: &str) -> MemberId {
        MemberId(self.names.intern(name))
    }

    /// The number of a server that has ever joined.
    pub fn find(&self, name: &str) -> Option<MemberId> {
        self.names.find(name).map(MemberId)
    }

    /// The name of a server, which must be a member.
    pub fn name(&self, member: MemberId) -> &str {
        self.names.name(member.0)
    }

    /// All names, by number.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter()
    }
}
