//! Axes: which numbers they show, and where.

/// Whether a number can be drawn: it is finite, and small enough that sums of it are finite too.
pub(super) fn is_drawn(n: f64) -> bool {
    n.abs() < 1e100
}

/// Whether numbers differ so much in size that only a logarithmic axis shows all of them.
pub(super) fn is_wide(least: f64, most: f64) -> bool {
    least > 0.0 && most / least > 200.0
}

/// The minimum and the maximum of these numbers.
pub(super) fn ends(values: &[f64]) -> Option<(f64, f64)> {
    let least = values.iter().copied().reduce(f64::min)?;
    Some((least, values.iter().copied().reduce(f64::max)?))
}

/// Maps a range of numbers to a range of pixels.
pub(super) struct Axis {
    from: f64,
    to: f64,
    pub(super) is_log: bool,
    pixels: (f64, f64),
    pub(super) ticks: Vec<f64>,
}

impl Axis {
    /// The vertical axis: between round numbers, from 0 if that is near, logarithmic if the numbers differ very much in
    /// size.
    pub(super) fn upright(values: &[f64], pixels: (f64, f64)) -> Self {
        let (least, most) = ends(values).unwrap_or((0.0, 1.0));
        if is_wide(least, most) {
            let (from, to) = (least.log10().floor() as i32, most.log10().ceil() as i32);
            let step = ((to - from) / 5).max(1) as usize;
            let ticks = (from..=to).step_by(step).map(|power| 10_f64.powi(power)).collect();
            return Self { from: 10_f64.powi(from), to: 10_f64.powi(to), is_log: true, pixels, ticks };
        }
        let (least, most) = apart(least, most);
        let least = if least > 0.0 && least < 0.25 * most { 0.0 } else { least };
        let ticks = round_numbers(least, most);
        let (from, to) = ends(&ticks).unwrap_or((least, most));
        Self { from, to, is_log: false, pixels, ticks }
    }

    /// The horizontal axis: from the first x to the last. If there are few, each has its own tick.
    pub(super) fn along(xs: &[f64], others: &[f64], is_log: bool, pixels: (f64, f64)) -> Self {
        const FEW: usize = 10;
        let all = [xs, others].concat();
        let (least, most) = ends(&all).unwrap_or((0.0, 1.0));
        let is_log = is_log && least > 0.0;
        let (from, to) = match is_log {
            true if most / least < 1.0 + 1e-9 => (least / 2.0, most * 2.0),
            true => (least, most),
            false => apart(least, most),
        };
        let mut ticks = match is_log {
            _ if xs.len() <= FEW => xs.to_vec(),
            true => factors(from, to),
            false => round_numbers(from, to),
        };
        ticks.retain(|tick| (from..=to).contains(tick));
        Self { from, to, is_log, pixels, ticks }
    }

    /// An axis from the first of these ticks to the last.
    pub(super) fn through(ticks: Vec<f64>, is_log: bool, pixels: (f64, f64)) -> Self {
        let (from, to) = ends(&ticks).unwrap_or((0.0, 1.0));
        Self { from, to, is_log, pixels, ticks }
    }

    /// The pixel of a number. A number beyond an end is drawn at that end.
    pub(super) fn place(&self, n: f64) -> Option<f64> {
        if !is_drawn(n) || self.is_log && n <= 0.0 {
            return None;
        }
        let n = n.clamp(self.from, self.to);
        let share = match self.is_log {
            _ if self.to <= self.from => 0.5,
            true => (n / self.from).ln() / (self.to / self.from).ln(),
            false => (n - self.from) / (self.to - self.from),
        };
        Some(self.pixels.0 + share * (self.pixels.1 - self.pixels.0))
    }
}

/// Two ends that differ by more than rounding.
fn apart(least: f64, most: f64) -> (f64, f64) {
    let size = least.abs().max(most.abs());
    if most - least > 1e-9 * size && size > 1e-100 {
        return (least, most);
    }
    let room = if size > 1e-100 { 0.1 * size } else { 1.0 };
    (least - room, most + room)
}

/// Four to eight round numbers; the first and the last enclose this range.
fn round_numbers(least: f64, most: f64) -> Vec<f64> {
    let rough = (most - least) / 5.0;
    let step = round_step(rough, &[1.0, 2.0, 2.5, 5.0, 10.0], rough * 0.999);
    // Rounding must not add a step.
    let (first, last) = ((least / step + 1e-6).floor(), (most / step - 1e-6).ceil());
    (0..=(last - first).clamp(1.0, 20.0) as u32).map(|k| (first + f64::from(k)) * step).collect()
}

/// The first of these multiples of a power of ten that is at least `least`, which is about `rough`.
pub(super) fn round_step(rough: f64, multiples: &[f64], least: f64) -> f64 {
    let power = 10_f64.powf(rough.log10().floor());
    multiples.iter().map(|n| n * power).find(|step| *step >= least).unwrap_or(rough)
}

/// Powers of ten, and numbers between them if there are few.
fn factors(from: f64, to: f64) -> Vec<f64> {
    let (first, last) = (from.log10().floor() as i32, to.log10().ceil() as i32);
    let between: &[f64] = if last - first <= 3 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let powers = (first..=last).step_by(((last - first) / 6).max(1) as usize);
    powers.flat_map(|power| between.iter().map(move |n| n * 10_f64.powi(power))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_round_numbers() {
        assert_eq!(round_numbers(0.0, 1.0), [0.0, 0.2, 0.4, 3.0 * 0.2, 0.8, 1.0]);
        assert_eq!(round_numbers(1.0, 1.31).len(), 5);
        let axis = Axis::upright(&[1.0, 1.31], (100.0, 0.0));
        assert_eq!((axis.from, axis.place(1.0)), (1.0, Some(100.0)));
        assert!(Axis::upright(&[10.0, 90.0], (100.0, 0.0)).from.abs() < 1e-9, "0 is near");
        assert!(Axis::upright(&[1.0, 900.0], (100.0, 0.0)).is_log);
        let axis = Axis::along(&[2.0, 4.0, 8.0], &[], true, (0.0, 100.0));
        assert_eq!(
            axis.ticks.iter().filter_map(|&tick| axis.place(tick)).collect::<Vec<_>>(),
            [0.0, 50.0, 100.0]
        );
    }
}
