//! The server of an object of which nothing but the name is known.

use crate::draw::mix;
use crate::model::ServerId;

/// The default server of an object: the name modulo the number of servers if the name is a whole number, however large
/// (round robin, paper 004 §3.4); else by a hash that is the same on every machine. Without servers it is server 0.
pub fn default_server(name: &str, n_servers: u32) -> ServerId {
    let n = u64::from(n_servers.max(1));
    let is_number = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
    let server = if is_number {
        let by_digits = || name.bytes().fold(0, |rest, digit| (rest * 10 + u64::from(digit - b'0')) % n);
        name.parse().map_or_else(|_| by_digits(), |number: u64| number % n)
    } else {
        // FNV-1a, whose low bits alone would be poor.
        let fnv = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
        mix(name.bytes().fold(0xCBF2_9CE4_8422_2325, fnv)) % n
    };
    ServerId(server as u32)
}
