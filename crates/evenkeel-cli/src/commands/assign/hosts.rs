//! The hosts on which the processes of a job run, as launchers and machine files tell them.

use anyhow::{Context, Result, bail, ensure};

/// More processes than any cluster runs at once are a slip.
const MOST_HOSTS: usize = 1 << 20;

/// The hosts of all processes of this job, in order of ranks.
pub(super) fn of_launcher(variable: &dyn Fn(&str) -> Option<String>) -> Result<Vec<String>> {
    // Those of a step come first: it may have fewer nodes than its job.
    for (nodes, tasks) in
        [("SLURM_STEP_NODELIST", "SLURM_STEP_TASKS_PER_NODE"), ("SLURM_JOB_NODELIST", "SLURM_TASKS_PER_NODE")]
    {
        if let (Some(list), Some(counts)) = (variable(nodes), variable(tasks)) {
            let hosts = expanded(&list).with_context(|| format!("{nodes}, which Slurm sets, is `{list}`"))?;
            let counts = tasks_per_node(&counts)
                .with_context(|| format!("{tasks}, which Slurm sets, is `{counts}`"))?;
            ensure!(
                hosts.len() == counts.len(),
                "{nodes} has {} nodes, but {tasks} has {}; name the hosts by --hosts",
                hosts.len(),
                counts.len()
            );
            return dealt(&hosts, &counts, variable("SLURM_DISTRIBUTION").as_deref());
        }
    }
    if let Some(path) = variable("PBS_NODEFILE") {
        let text =
            std::fs::read_to_string(&path).with_context(|| format!("cannot read {path} (PBS_NODEFILE)"))?;
        return of_machine_file(&text).with_context(|| format!("{path} (PBS_NODEFILE)"));
    }
    bail!(
        "--processes auto finds no hosts: neither Slurm nor PBS has started this process; give a machine file by --hosts, or \
         --processes as CSV"
    )
}

/// The hosts in a machine file of MPI.
pub(super) fn of_machine_file(text: &str) -> Result<Vec<String>> {
    let mut hosts = Vec::new();
    for (nth, line) in text.lines().enumerate() {
        let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
        let Some(first) = words.next() else { continue };
        let (host, after_colon) = match first.rsplit_once(':') {
            Some((host, n)) if !host.contains(':') => (host, Some(n)),
            _ => (first, None),
        };
        let slots = words.find_map(|word| word.strip_prefix("slots=")).or(after_colon);
        let n: usize =
            slots.unwrap_or("1").parse().ok().filter(|n| (1..=MOST_HOSTS).contains(n)).with_context(
                || format!("line {}: `{}` is no number of processes", nth + 1, slots.unwrap_or_default()),
            )?;
        hosts.extend(std::iter::repeat_n(host.to_owned(), n));
        ensure!(hosts.len() <= MOST_HOSTS, "line {}: more than {MOST_HOSTS} processes", nth + 1);
    }
    ensure!(!hosts.is_empty(), "it names no host; write one a line");
    Ok(hosts)
}

/// The host of each rank, given how many there are on each.
fn dealt(hosts: &[String], counts: &[usize], distribution: Option<&str>) -> Result<Vec<String>> {
    let kind = distribution.unwrap_or("block").split([':', ',']).next().unwrap_or_default();
    let rounds = match kind {
        "block" | "*" | "" => 1,
        "cyclic" => counts.iter().copied().max().unwrap_or(0),
        other => bail!(
            "ranks are distributed by `{other}` (SLURM_DISTRIBUTION), which is not known; name the hosts by --hosts"
        ),
    };
    let mut dealt = Vec::new();
    for round in 0..rounds {
        for (host, &n) in hosts.iter().zip(counts) {
            let n = if kind == "cyclic" { usize::from(round < n) } else { n };
            ensure!(dealt.len() + n <= MOST_HOSTS, "more than {MOST_HOSTS} processes");
            dealt.extend(std::iter::repeat_n(host.clone(), n));
        }
    }
    Ok(dealt)
}

/// The numbers in `2(x3),1`.
fn tasks_per_node(text: &str) -> Result<Vec<usize>> {
    let mut counts = Vec::new();
    for part in text.split(',') {
        let (count, times) = match part.split_once("(x") {
            Some((count, times)) => (count, times.strip_suffix(')').context("a parenthesis is not closed")?),
            None => (part, "1"),
        };
        let number = |text: &str| text.trim().parse::<usize>().ok().filter(|&n| n <= MOST_HOSTS);
        let (count, times) =
            number(count).zip(number(times)).with_context(|| format!("`{part}` is no number of tasks"))?;
        ensure!(counts.len() + times <= MOST_HOSTS, "more than {MOST_HOSTS} nodes");
        counts.extend(std::iter::repeat_n(count, times));
    }
    Ok(counts)
}

/// The hosts in `node[01-04,07],login1`.
fn expanded(list: &str) -> Result<Vec<String>> {
    let (mut hosts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, sign) in list.char_indices().chain([(list.len(), ',')]) {
        match sign {
            '[' => depth += 1,
            ']' => depth -= 1,
            ',' if depth == 0 => {
                hosts.extend(expanded_one(&list[start..at])?);
                start = at + 1;
            }
            _ => {}
        }
        ensure!((0..=1).contains(&depth) && hosts.len() <= MOST_HOSTS, "it is no list of nodes");
    }
    ensure!(depth == 0, "a bracket is not closed");
    Ok(hosts)
}

/// The hosts in `a[1-2]b[3,5]`.
fn expanded_one(text: &str) -> Result<Vec<String>> {
    let Some((head, rest)) = text.split_once('[') else {
        ensure!(!text.is_empty(), "a name is missing");
        return Ok(vec![text.to_owned()]);
    };
    let (ranges, tail) = rest.split_once(']').context("a bracket is not closed")?;
    let tails = if tail.is_empty() { vec![String::new()] } else { expanded_one(tail)? };
    let mut hosts = Vec::new();
    for range in ranges.split(',') {
        let (from, to) = range.split_once('-').unwrap_or((range, range));
        let number =
            |text: &str| text.parse::<usize>().ok().filter(|_| text.bytes().all(|b| b.is_ascii_digit()));
        let (first, last) = number(from).zip(number(to)).with_context(|| format!("`{range}` is no range"))?;
        ensure!(first <= last, "`{range}` runs backwards");
        ensure!((last - first).saturating_mul(tails.len()) < MOST_HOSTS, "more than {MOST_HOSTS} nodes");
        for number in first..=last {
            // Leading zeros are part of names.
            hosts
                .extend(tails.iter().map(|tail| format!("{head}{number:0width$}{tail}", width = from.len())));
        }
        ensure!(hosts.len() <= MOST_HOSTS, "more than {MOST_HOSTS} nodes");
    }
    Ok(hosts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with<'a>(variables: &'a [(&str, &str)]) -> impl Fn(&str) -> Option<String> + 'a {
        |name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    }

    #[test]
    fn slurm_writes_hosts_in_short() {
        let hosts =
            |list: &str| expanded(list).map(|hosts| hosts.join(" ")).map_err(|error| error.to_string());
        assert_eq!(hosts("n[08-10,3],login1").as_deref(), Ok("n08 n09 n10 n3 login1"));
        assert_eq!(hosts("a[1-2]b[3,5]-x").as_deref(), Ok("a1b3-x a1b5-x a2b3-x a2b5-x"));
        for wrong in [
            "",
            "a[1",
            "a]1[",
            "a[x]",
            "a[2-1]",
            "a[[1]]",
            "a[-1]",
            "a,,b",
            "a[1-99999999]",
            "a[1-2000][1-2000]",
        ] {
            assert!(hosts(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn ranks_have_hosts() {
        let of = |variables: &[(&str, &str)]| {
            of_launcher(&with(variables)).map(|hosts| hosts.join(" ")).map_err(|error| format!("{error:#}"))
        };
        let job = [("SLURM_JOB_NODELIST", "n[1-3]"), ("SLURM_TASKS_PER_NODE", "2(x2),1")];
        assert_eq!(of(&job).as_deref(), Ok("n1 n1 n2 n2 n3"));
        let step = [("SLURM_STEP_NODELIST", "n2"), ("SLURM_STEP_TASKS_PER_NODE", "2")];
        assert_eq!(of(&[&job[..], &step].concat()).as_deref(), Ok("n2 n2"));
        let cyclic = [&job[..], &[("SLURM_DISTRIBUTION", "cyclic:block")]].concat();
        assert_eq!(of(&cyclic).as_deref(), Ok("n1 n2 n3 n1 n2"));
        let plane = [&job[..], &[("SLURM_DISTRIBUTION", "plane=2")]].concat();
        assert!(of(&plane).unwrap_err().contains("plane=2"));
        let uneven = [("SLURM_JOB_NODELIST", "n[1-3]"), ("SLURM_TASKS_PER_NODE", "2(x2)")];
        assert!(of(&uneven).unwrap_err().contains("3 nodes"));
        assert!(of(&[("SLURM_JOB_NODELIST", "n1"), ("SLURM_TASKS_PER_NODE", "2(x")]).is_err());
        assert!(of(&[]).unwrap_err().contains("neither Slurm nor PBS"));
        assert!(of(&[("PBS_NODEFILE", "/nowhere")]).unwrap_err().contains("PBS_NODEFILE"));
    }

    #[test]
    fn machine_files_are_read() {
        let hosts =
            |text| of_machine_file(text).map(|hosts| hosts.join(" ")).map_err(|error| error.to_string());
        assert_eq!(hosts("# ours\na\nb:2\nc slots=2 max_slots=4\n\n::1\n").as_deref(), Ok("a b b c c ::1"));
        assert!(hosts("").unwrap_err().contains("names no host"));
        assert!(hosts("a\nb:x").unwrap_err().contains("line 2: `x`"));
        assert!(hosts("a slots=0").is_err() && hosts("a slots=99999999").is_err());
    }
}
