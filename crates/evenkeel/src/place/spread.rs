//! How evenly servers are loaded.

use crate::model::Ratio;

/// The distribution of server loads in four figures, in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The largest load.
    pub max: u128,
    /// The smallest load.
    pub min: u128,
    /// The mean load.
    pub mean: Ratio,
    /// The standard deviation.
    pub stddev: f64,
}

impl Spread {
    /// The spread of these loads; all 0 if there are none.
    pub fn new(loads: &[u128]) -> Self {
        let mean =
            Ratio::new(loads.iter().fold(0, |sum, load| sum.saturating_add(*load)), loads.len() as u64);
        let square = |load: &u128| {
            let distance = *load as f64 - mean.to_f64();
            distance * distance
        };
        let variance = loads.iter().map(square).sum::<f64>() / loads.len().max(1) as f64;
        Self {
            max: loads.iter().copied().max().unwrap_or(0),
            min: loads.iter().copied().min().unwrap_or(0),
            mean,
            stddev: variance.sqrt(),
        }
    }
}
