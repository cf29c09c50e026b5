//! Whatever batch can be read is planned, and the plan and its proof are accepted by the checker.
#![no_main]
use evenkeel::check::{self, Subject};
use evenkeel::select::{Goal, optimal};
use evenkeel_cli::formats::{Declared, read_batch_csv};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(batch) = read_batch_csv(bytes, "fuzz", 1, Declared::default()) else { return };
    for (goal, subject) in
        [(Goal::Length, Subject::Length), (Goal::MaxLoad, Subject::MaxLoad), (Goal::Mean, Subject::MaxLoad)]
    {
        let (choice, bound) = optimal::select(&batch, goal);
        let schedule = evenkeel::order::colour::order(&batch, &choice);
        let measures = check::plan(&batch, &schedule.transfers, true).expect("a valid plan");
        let reached = if subject == Subject::Length { measures.length } else { measures.max_load };
        assert_eq!(reached, bound.value);
        check::bound(&batch, &bound, subject).expect("a proof that holds");
    }
});
