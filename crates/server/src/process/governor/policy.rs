//! The governor's policy as a pure function: samples in, a decision out.

/// Workers wait too much for processors if it is this share of the time in which they want one.
const CONTENDED: f64 = 0.2;
/// In how many rounds in a row, before one retires.
const CONTENDED_ROUNDS: u32 = 5;
/// A worker wants a processor most of the time from this share of it on.
const SATURATED: f64 = 0.75;
/// How busy the workers that are left may be for one to retire, unless all are saturated.
const SPARE: f64 = 0.6;
/// Workers are needed if those that are active run for this share of the time.
const NEEDED: f64 = 0.8;
/// In how many rounds in a row, before more are active: those there are serve shorter bursts.
const NEEDED_ROUNDS: u32 = 4;
/// How many times as many are active then.
const NEEDED_TIMES: usize = 4;
/// Processors are contended if they are idle for less than this share of a round, together: two of
/// the ticks of 10 ms that idle time is counted in.
const CONTENDED_IDLE: f64 = 0.25;
/// They have time for one more worker from this share on. With less, that worker would do little,
/// and take turns with clients again; clients that wait for each reply leave some idle time anyway.
const NEEDED_IDLE: f64 = 0.5;
/// Rounds after which it is seen whether fewer workers serve as much.
const TRIAL_ROUNDS: u32 = 5;
/// A retirement is undone if less than this share of what arrived with all workers arrives then.
/// Clients that wait for each reply send somewhat less to fewer workers, and in return hardly any
/// request waits for a scheduler's slice.
const SERVED: f64 = 0.66;
/// It is also undone if a read brings so many times what it brought before: clients that do not
/// wait for replies send more than is served, and their requests queue up.
const QUEUED: f64 = 1.5;
/// In how many rounds in a row.
const QUEUED_ROUNDS: u32 = 2;
/// Rounds without a retirement after workers have become active.
const SETTLING_ROUNDS: u32 = 10;
/// Rounds without one if they have within so many rounds of the last one, doubled each time, up
/// to the most.
const HOLD_ROUNDS: u32 = 50;
const MAX_HOLD_ROUNDS: u32 = 3000;
/// A worker is relieved if it runs for so much more of the time than the mean of the active ones.
const UNEVEN: f64 = 0.15;
/// In how many rounds in a row, before each time that it is.
const UNEVEN_ROUNDS: u32 = 3;

/// What a round has seen.
#[derive(Clone, Debug, Default)]
pub(super) struct Round {
    /// For what share of the round each active worker ran.
    pub(super) ran: Vec<f64>,
    /// For what share of the round they waited for processors, together.
    pub(super) waited: f64,
    /// Bytes that arrived.
    pub(super) arrived: u64,
    /// In how many reads they did.
    pub(super) reads: u64,
    /// For what share of the round processors were idle, together.
    pub(super) idle: f64,
}

/// What is to be done.
#[derive(Debug, PartialEq)]
pub(super) enum Decision {
    /// So many workers are to be active.
    Activate(usize),
    /// One worker is to hand this share of its requests to another one.
    Relieve { busiest: usize, idlest: usize, share: f64 },
}

/// A retirement that is being tried.
#[derive(Clone, Copy, Debug)]
struct Trial {
    rounds: u32,
    arrived_before: u64,
    arrived: u64,
}

/// What is remembered from round to round.
#[derive(Debug)]
pub(super) struct Policy {
    workers: usize,
    active: usize,
    contended_rounds: u32,
    /// What arrived in these, and in how many reads.
    arrived: u64,
    reads: u64,
    needed_rounds: u32,
    queued_rounds: u32,
    uneven_rounds: u32,
    trial: Option<Trial>,
    /// What share of what arrived with all workers still arrives, as the trials found.
    served: f64,
    /// Bytes that a read brought before the last retirement.
    bytes_per_read: f64,
    /// Rounds to go before a worker may retire.
    hold_rounds: u32,
    /// How many those are after the next retirement that does not last.
    next_hold_rounds: u32,
    /// Rounds since the last retirement.
    retired_rounds: u32,
}

impl Policy {
    /// For so many workers, all active.
    pub(super) fn new(workers: usize) -> Self {
        Policy {
            workers,
            active: workers,
            contended_rounds: 0,
            arrived: 0,
            reads: 0,
            needed_rounds: 0,
            queued_rounds: 0,
            uneven_rounds: 0,
            trial: None,
            served: 1.0,
            bytes_per_read: f64::INFINITY,
            hold_rounds: 0,
            next_hold_rounds: HOLD_ROUNDS,
            retired_rounds: 0,
        }
    }

    /// How many workers are active.
    pub(super) fn active(&self) -> usize {
        self.active
    }

    /// Makes all workers active, whatever the samples show.
    pub(super) fn activate_all(&mut self) -> Option<Decision> {
        self.trial = None;
        if self.active == self.workers { None } else { self.change(self.workers) }
    }

    /// Decides after a round.
    pub(super) fn decide(&mut self, round: &Round) -> Option<Decision> {
        self.hold_rounds = self.hold_rounds.saturating_sub(1);
        self.retired_rounds = self.retired_rounds.saturating_add(1);
        self.end_trial(round)
            .or_else(|| self.work_off(round))
            .or_else(|| self.activate(round))
            .or_else(|| self.retire(round))
            .or_else(|| self.even_out(round))
    }

    /// Undoes a retirement after which too little arrives.
    fn end_trial(&mut self, round: &Round) -> Option<Decision> {
        let trial = self.trial.as_mut()?;
        trial.rounds += 1;
        trial.arrived += round.arrived;
        if trial.rounds < TRIAL_ROUNDS {
            return None;
        }
        let Trial { arrived_before, arrived, .. } = *trial;
        self.trial = None;
        let served = self.served * arrived as f64 / arrived_before as f64;
        if served >= SERVED {
            self.served = served.min(1.0);
            return None;
        }
        self.return_to(self.active + 1)
    }

    /// Undoes a retirement after which requests queue up.
    fn work_off(&mut self, round: &Round) -> Option<Decision> {
        let is_queued = round.arrived as f64 > self.bytes_per_read * QUEUED * round.reads as f64;
        self.queued_rounds = if is_queued { self.queued_rounds + 1 } else { 0 };
        if self.active == self.workers || self.queued_rounds < QUEUED_ROUNDS {
            return None;
        }
        self.trial = None;
        self.return_to(self.active + 1)
    }

    /// Makes more workers active than were, and holds retirements off: for long if the last one has
    /// not lasted.
    fn return_to(&mut self, active: usize) -> Option<Decision> {
        if self.retired_rounds > HOLD_ROUNDS {
            self.hold_rounds = SETTLING_ROUNDS;
            self.next_hold_rounds = HOLD_ROUNDS;
        } else {
            self.hold_rounds = self.next_hold_rounds;
            self.next_hold_rounds = (self.next_hold_rounds * 2).min(MAX_HOLD_ROUNDS);
        }
        self.change(active)
    }

    fn activate(&mut self, round: &Round) -> Option<Decision> {
        let ran: f64 = round.ran.iter().sum();
        let is_needed = ran > NEEDED * self.active as f64 && round.idle >= NEEDED_IDLE;
        self.needed_rounds = if is_needed { self.needed_rounds + 1 } else { 0 };
        if self.active == self.workers || self.needed_rounds < NEEDED_ROUNDS {
            return None;
        }
        self.return_to((self.active * NEEDED_TIMES).min(self.workers))
    }

    fn retire(&mut self, round: &Round) -> Option<Decision> {
        let ran: f64 = round.ran.iter().sum();
        let (wanted, left) = (ran + round.waited, self.active as f64 - 1.0);
        let is_saturated = wanted >= SATURATED * self.active as f64;
        let is_contended = round.waited > wanted * CONTENDED
            && (ran <= SPARE * left || is_saturated)
            && round.idle < CONTENDED_IDLE;
        if !is_contended || self.trial.is_some() || self.hold_rounds > 0 {
            (self.contended_rounds, self.arrived, self.reads) = (0, 0, 0);
            return None;
        }
        self.contended_rounds += 1;
        self.arrived += round.arrived;
        self.reads += round.reads;
        if self.active == 1 || self.contended_rounds < CONTENDED_ROUNDS {
            return None;
        }
        self.trial = Some(Trial { rounds: 0, arrived_before: self.arrived, arrived: 0 });
        self.bytes_per_read = self.arrived as f64 / self.reads.max(1) as f64;
        self.retired_rounds = 0;
        self.change(self.active - 1)
    }

    fn change(&mut self, active: usize) -> Option<Decision> {
        self.active = active;
        self.trial = self.trial.filter(|trial| trial.rounds == 0);
        if active == self.workers {
            self.served = 1.0;
        }
        (self.contended_rounds, self.arrived, self.reads) = (0, 0, 0);
        (self.needed_rounds, self.queued_rounds, self.uneven_rounds) = (0, 0, 0);
        Some(Decision::Activate(active))
    }

    /// Relieves the busiest worker.
    fn even_out(&mut self, round: &Round) -> Option<Decision> {
        let mean = round.ran.iter().sum::<f64>() / round.ran.len() as f64;
        let by_time = |a: &(usize, &f64), b: &(usize, &f64)| a.1.total_cmp(b.1);
        let (busiest, most) = round.ran.iter().enumerate().max_by(by_time)?;
        let (idlest, _) = round.ran.iter().enumerate().min_by(by_time)?;
        let is_uneven = most - mean > UNEVEN;
        self.uneven_rounds = if is_uneven { self.uneven_rounds + 1 } else { 0 };
        if self.uneven_rounds < UNEVEN_ROUNDS {
            return None;
        }
        // What cannot be evened out, such as one busy connection, is not tried in each round: a
        // worker counts all its connections for it.
        self.uneven_rounds = 0;
        let share = (most - mean) / most;
        Some(Decision::Relieve { busiest, idlest, share })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As many rounds as it takes until something is decided, at most so many.
    fn decided(policy: &mut Policy, round: &Round, most: u32) -> Option<(u32, Decision)> {
        (1..=most).find_map(|count| policy.decide(round).map(|decision| (count, decision)))
    }

    /// Two workers that take turns with clients on two processors.
    fn contended() -> Round {
        Round { ran: vec![0.55, 0.5], waited: 0.9, arrived: 1000, reads: 100, idle: 0.0 }
    }

    #[test]
    fn a_worker_retires_where_processors_are_contended() {
        let mut policy = Policy::new(2);
        assert_eq!(decided(&mut policy, &contended(), 9), Some((5, Decision::Activate(1))));
        let alone = Round { ran: vec![0.98], waited: 0.02, arrived: 1000, reads: 100, idle: 0.02 };
        assert_eq!(decided(&mut policy, &alone, 1000), None, "there is always one");
    }

    #[test]
    fn no_worker_retires_with_processors_of_its_own() {
        let mut policy = Policy::new(2);
        let busy =
            Round { ran: vec![0.99, 0.98], waited: 0.01, arrived: 1000, reads: 100, idle: 0.0 };
        assert_eq!(decided(&mut policy, &busy, 1000), None);
        let idle = Round { ran: vec![0.02, 0.01], waited: 0.001, arrived: 10, reads: 1, idle: 1.9 };
        assert_eq!(decided(&mut policy, &idle, 1000), None);
    }

    #[test]
    fn no_worker_retires_that_those_left_cannot_do_without() {
        let mut policy = Policy::new(4);
        let round = Round { ran: vec![0.5; 4], waited: 0.8, arrived: 1000, reads: 100, idle: 0.0 };
        assert_eq!(decided(&mut policy, &round, 1000), None);
    }

    #[test]
    fn a_retirement_that_costs_throughput_is_undone_and_held_off() {
        let mut policy = Policy::new(2);
        assert_eq!(decided(&mut policy, &contended(), 9), Some((5, Decision::Activate(1))));
        let less = Round { ran: vec![0.5], waited: 0.5, arrived: 600, reads: 60, idle: 0.0 };
        assert_eq!(decided(&mut policy, &less, 9), Some((5, Decision::Activate(2))));
        assert_eq!(decided(&mut policy, &contended(), 49), None);
        assert_eq!(decided(&mut policy, &contended(), 9), Some((5, Decision::Activate(1))));
        assert_eq!(decided(&mut policy, &less, 9), Some((5, Decision::Activate(2))));
        assert_eq!(decided(&mut policy, &contended(), 99), None, "for twice as long");
    }

    #[test]
    fn retirements_together_cost_a_third_of_the_throughput_at_most() {
        let mut policy = Policy::new(8);
        let mut arrived = 100_000;
        while let Some((_, Decision::Activate(active))) =
            decided(&mut policy, &round(8, arrived), 9)
        {
            arrived = arrived * 9 / 10;
            let trial = decided(&mut policy, &round(active, arrived), 5);
            if let Some((_, Decision::Activate(active))) = trial {
                assert_eq!(active, 5, "0.9 to the third is above 0.66, to the fourth is not");
                return;
            }
        }
        panic!("none was undone, {} are active", policy.active());
    }

    /// So many workers, all of which want a processor all the time.
    fn round(active: usize, arrived: u64) -> Round {
        let ran = vec![0.5; active];
        Round { ran, waited: active as f64 / 2.0, arrived, reads: arrived / 10, idle: 0.0 }
    }

    #[test]
    fn retirements_are_soon_tried_again_after_one_that_lasted() {
        let mut policy = Policy::new(2);
        let needed = Round { ran: vec![0.95], arrived: 1000, reads: 100, idle: 0.9, waited: 0.0 };
        let alone = Round { idle: 0.2, ..needed.clone() };
        assert_eq!(decided(&mut policy, &contended(), 9), Some((5, Decision::Activate(1))));
        assert_eq!(decided(&mut policy, &needed, 9), Some((4, Decision::Activate(2))));
        assert_eq!(decided(&mut policy, &contended(), 99), Some((54, Decision::Activate(1))));
        assert_eq!(decided(&mut policy, &alone, 100), None);
        assert_eq!(decided(&mut policy, &needed, 9), Some((4, Decision::Activate(2))));
        assert_eq!(decided(&mut policy, &contended(), 99), Some((14, Decision::Activate(1))));
    }

    #[test]
    fn a_worker_is_back_where_requests_queue_up() {
        let mut policy = Policy::new(2);
        assert_eq!(decided(&mut policy, &contended(), 9), Some((5, Decision::Activate(1))));
        let enough = Round { ran: vec![0.98], reads: 80, arrived: 1000, ..Round::default() };
        assert_eq!(decided(&mut policy, &enough, 1000), None);
        let queued = Round { reads: 60, ..enough };
        assert_eq!(decided(&mut policy, &queued, 9), Some((2, Decision::Activate(2))));
    }

    #[test]
    fn workers_are_back_within_a_second() {
        let mut policy = Policy::new(16);
        policy.active = 1;
        let mut rounds = 0;
        while policy.active() < 16 {
            let ran = vec![0.95; policy.active()];
            let round = Round { ran, waited: 0.0, arrived: 1000, reads: 100, idle: 3.0 };
            rounds += decided(&mut policy, &round, 9).unwrap().0;
        }
        assert!(rounds <= 10, "{rounds} rounds of 100 ms");
        let shared = Round { ran: vec![0.95], waited: 0.05, arrived: 1000, reads: 100, idle: 0.3 };
        policy.active = 1;
        assert_eq!(decided(&mut policy, &shared, 100), None, "no processor has time enough");
    }

    #[test]
    fn the_busiest_worker_is_relieved() {
        let mut policy = Policy::new(3);
        let round =
            Round { ran: vec![0.2, 0.8, 0.1], waited: 0.0, arrived: 1000, reads: 100, idle: 1.0 };
        let (rounds, decision) = decided(&mut policy, &round, 9).unwrap();
        let Decision::Relieve { busiest, idlest, share } = decision else { panic!("{decision:?}") };
        assert_eq!((rounds, busiest, idlest), (3, 1, 2));
        assert!((share - 13.0 / 24.0).abs() < 1e-9);
        assert_eq!(decided(&mut policy, &round, 9).unwrap().0, 3, "not in each round");
        let even =
            Round { ran: vec![0.5, 0.6, 0.4], waited: 0.0, arrived: 1000, reads: 100, idle: 1.0 };
        assert_eq!(decided(&mut policy, &even, 100), None);
    }
}
