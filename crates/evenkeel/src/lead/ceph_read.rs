//! `ceph-read`: Ceph's own read balancer, which evens out how many groups of a pool each server leads.
//!
//! The read balancer of Ceph (Reef and later), as its documentation describes it. Every pool is balanced by itself; here
//! the job of a request is its pool, or its client if it has none. A server should lead one of every r groups that it holds in r copies. Then every
//! group in turn is considered: if another of its members exceeds its share by less than the leader does, even after the
//! change, the one that exceeds it least leads from then on. This is repeated until a pass changes nothing.
//!
//! It knows neither sizes, nor speeds, nor other pools, and stops where no single change helps. Where nobody leads a
//! group today, its first replica does, as in CRUSH.

use crate::model::{Batch, Choice, ServerId};

/// Who leads each group after the changes of Ceph's balancer.
pub fn select(batch: &Batch) -> Choice {
    let n_jobs = batch.jobs().len();
    let mut pools: Vec<Vec<u32>> = vec![Vec::new(); n_jobs + batch.n_clients()];
    for (group, client) in (0..).zip(batch.client_of()) {
        let job = batch.job(group as usize).map(|job| job as usize);
        pools[job.unwrap_or(n_jobs + client.index())].push(group);
    }
    let mut leaders = super::current(batch);
    // By how much each server exceeds its share, in this pool.
    let mut excess = vec![0.0; batch.n_servers()];
    for groups in pools {
        excess.fill(0.0);
        for &group in &groups {
            let set = batch.replicas().of(group as usize);
            set.iter().for_each(|member| excess[member.index()] -= 1.0 / set.len() as f64);
            excess[leaders[group as usize].index()] += 1.0;
        }
        while pass(batch, &groups, &mut leaders, &mut excess) {}
    }
    Choice::whole(leaders)
}

/// Considers every group once. Returns whether any has changed.
fn pass(batch: &Batch, groups: &[u32], leaders: &mut [ServerId], excess: &mut [f64]) -> bool {
    // Sums of shares are not exact; a gain that small would never end.
    const LEAST_GAIN: f64 = 1e-6;
    let mut has_changed = false;
    for &group in groups {
        let leader = leaders[group as usize];
        let members = batch.replicas().of(group as usize).iter().copied();
        let least = members.min_by(|a, b| excess[a.index()].total_cmp(&excess[b.index()])).unwrap_or(leader);
        if excess[least.index()] + 1.0 + LEAST_GAIN < excess[leader.index()] {
            excess[leader.index()] -= 1.0;
            excess[least.index()] += 1.0;
            leaders[group as usize] = least;
            has_changed = true;
        }
    }
    has_changed
}
