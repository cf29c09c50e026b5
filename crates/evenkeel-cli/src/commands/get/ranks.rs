//! Which of several processes this is.

use anyhow::{Context, Result, bail};
use evenkeel_node::Rank;

use crate::cli::Ranks;

/// The variables in which launchers tell each process its rank and how many there are. What was started inside
/// something else comes first: `mpirun` within a Slurm job has its own ranks.
const LAUNCHERS: [(&str, &str, &str); 3] = [
    ("Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("MPICH", "PMI_RANK", "PMI_SIZE"),
    ("Slurm", "SLURM_PROCID", "SLURM_NTASKS"),
];

/// The rank of this process, if it has one. Variables count only if they are asked for.
pub(super) fn rank(
    rank: Option<u32>,
    ranks: Option<Ranks>,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<Rank>> {
    let rank = match (rank, ranks) {
        (_, None) => return Ok(None),
        (Some(rank), Some(Ranks::Of(of))) => Rank { rank, of },
        (None, Some(Ranks::Of(_))) => bail!("name the rank of this process by --rank, or say --ranks auto"),
        (Some(_), Some(Ranks::Auto)) => bail!("--ranks auto finds the rank itself; leave out --rank"),
        (None, Some(Ranks::Auto)) => launched(variable)?.context(
            "--ranks auto finds no rank: neither Open MPI, MPICH nor Slurm has started this process; start it by srun or \
             mpirun, or name --rank and --ranks",
        )?,
    };
    if rank.rank >= rank.of {
        bail!("there is no rank {} of {}; ranks count from 0", rank.rank, rank.of);
    }
    Ok(Some(rank))
}

/// The rank that a launcher has given this process.
pub(in crate::commands) fn launched(variable: &dyn Fn(&str) -> Option<String>) -> Result<Option<Rank>> {
    for (launcher, rank, of) in LAUNCHERS {
        let (Some(rank_text), Some(of_text)) = (variable(rank), variable(of)) else { continue };
        let number = |name: &str, text: &str| -> Result<u32> {
            text.parse().with_context(|| format!("{name}, which {launcher} sets, is `{text}` and no number"))
        };
        return Ok(Some(Rank { rank: number(rank, &rank_text)?, of: number(of, &of_text)? }));
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_launcher_nearest_to_the_process_counts() {
        let with = |variables: &'static [(&str, &str)]| {
            move |name: &str| {
                variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
            }
        };
        let auto = |variables| rank(None, Some(Ranks::Auto), &with(variables)).map_err(|e| e.to_string());
        let slurm = &[("SLURM_PROCID", "3"), ("SLURM_NTASKS", "8")];
        assert_eq!(auto(slurm), Ok(Some(Rank { rank: 3, of: 8 })));
        assert_eq!(auto(&[("PMI_RANK", "0"), ("PMI_SIZE", "2")]), Ok(Some(Rank { rank: 0, of: 2 })));
        let mpirun_in_slurm = &[
            ("SLURM_PROCID", "0"),
            ("SLURM_NTASKS", "1"),
            ("OMPI_COMM_WORLD_RANK", "1"),
            ("OMPI_COMM_WORLD_SIZE", "4"),
        ];
        assert_eq!(auto(mpirun_in_slurm), Ok(Some(Rank { rank: 1, of: 4 })));
        assert!(auto(&[("PMI_RANK", "1")]).unwrap_err().contains("finds no rank"));
        assert!(auto(&[("PMI_RANK", "x"), ("PMI_SIZE", "2")]).unwrap_err().contains("PMI_RANK"));
        assert!(auto(&[("PMI_RANK", "2"), ("PMI_SIZE", "2")]).unwrap_err().contains("count from 0"));
        // Never unless asked for.
        assert_eq!(rank(None, None, &with(slurm)).unwrap(), None);
        assert!(rank(Some(0), Some(Ranks::Auto), &with(slurm)).is_err());
        assert!(rank(None, Some(Ranks::Of(2)), &with(slurm)).is_err());
    }
}
