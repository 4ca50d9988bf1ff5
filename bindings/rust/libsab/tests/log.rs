//! The log closure belongs to the process, so these tests stand in a process of their own, and in
//! one test.

use std::panic::{catch_unwind, panic_any};
use std::sync::{Arc, Mutex};

use libsab::{clear_log, set_log, LogLevel, Oversize, Plan, PlanOptions, Sizes};

fn plan_that_skips_one() -> Plan {
    let options = PlanOptions::new().budget(12.0).oversize(Oversize::Skip);
    Plan::new(&Sizes::copied(&[3u8, 99, 4]).unwrap(), &options).unwrap()
}

#[test]
fn log_closure_hears_of_skipped_samples_until_it_is_replaced() {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let heard = lines.clone();
    set_log(move |level, message| heard.lock().unwrap().push((level, message.to_string())));
    plan_that_skips_one();
    let warnings = lines.lock().unwrap().iter().filter(|line| line.0 == LogLevel::Warning).count();
    assert_eq!(warnings, 1);

    set_log(|_, _| panic_any(9usize));
    assert_eq!(*catch_unwind(plan_that_skips_one).unwrap_err().downcast::<usize>().unwrap(), 9);
    assert_eq!(Arc::strong_count(&lines), 1);

    clear_log();
    plan_that_skips_one();
    assert_eq!(lines.lock().unwrap().len(), 1);
}
