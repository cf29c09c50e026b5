//! The servers of an object when only its name is known.
//!
//! * [`default_server`] – by the number of servers, as `place` does it: one more server moves nearly all objects.
//! * [`homes`] – rendezvous hashing (Thaler and Ravishankar 1998), for servers that come and go: one more of N servers
//!   moves 1/N of the objects, all of them to the new one, and one less moves only those that it had.

use std::cmp::Reverse;

use crate::draw::mix;
use crate::model::MemberId;

/// The default server of an object. If the name is a whole number, however large, it is the name modulo the number of
/// servers (round robin, paper 004 §3.4). Otherwise it is given by a hash that is the same on every machine. Without
/// servers it is server 0.
pub fn default_server(name: &str, n_servers: u32) -> MemberId {
    let n = u64::from(n_servers.max(1));
    let is_number = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
    let server = if is_number {
        let by_digits = || name.bytes().fold(0, |rest, digit| (rest * 10 + u64::from(digit - b'0')) % n);
        name.parse().map_or_else(|_| by_digits(), |number: u64| number % n)
    } else {
        stable_hash(name) % n
    };
    MemberId(server as u32)
}

/// The servers of the copies of an object, the first copy first; fewer than requested if there are not enough servers.
/// The result depends only on the names of the object and of the servers, not on their numbers or order.
pub fn homes<'a>(
    object: &str,
    servers: impl IntoIterator<Item = (MemberId, &'a str)>,
    n_copies: usize,
) -> Vec<MemberId> {
    let object = stable_hash(object);
    // Equal scores, which hardly ever occur, are decided by the names.
    let score = |(id, name): (MemberId, &'a str)| (Reverse(mix(object ^ mix(stable_hash(name)))), name, id);
    let mut scores: Vec<_> = servers.into_iter().map(score).collect();
    let n_copies = n_copies.min(scores.len());
    if n_copies < scores.len() {
        scores.select_nth_unstable(n_copies);
    }
    scores.truncate(n_copies);
    scores.sort_unstable();
    scores.into_iter().map(|(.., id)| id).collect()
}

/// A hash of a name, the same on every machine.
fn stable_hash(name: &str) -> u64 {
    // FNV-1a, whose low bits alone would be poor.
    let fnv = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
    mix(name.bytes().fold(0xCBF2_9CE4_8422_2325, fnv))
}
