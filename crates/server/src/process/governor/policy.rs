//! The governor's policy as a pure function: samples in, a decision out.

/// Workers compete too much for processors if they wait for one for this share of the time in which
/// they are runnable.
const CONTENDED: f64 = 0.2;
/// A worker retires when these shares of consecutive contended rounds add up to this: after two
/// rounds of severe contention, five of slight. At least two: one is also a burst of requests.
const CONTENDED_SUM: f64 = 0.85;
const CONTENDED_ROUNDS: u32 = 2;
/// A worker is saturated if it is runnable for this share of the time.
const SATURATED: f64 = 0.75;
/// How busy the remaining workers may become when one retires, unless all are saturated.
const SPARE: f64 = 0.6;
/// More workers are needed if the active ones run for this share of the time.
const NEEDED: f64 = 0.8;
/// Consecutive such rounds before more workers become active: the active ones serve shorter bursts.
const NEEDED_ROUNDS: u32 = 4;
/// The factor by which the number of active workers then grows.
const NEEDED_TIMES: usize = 4;
/// Processors are contended if their total idle time is less than this share of a round: two of the
/// 10 ms ticks in which idle time is counted.
const CONTENDED_IDLE: f64 = 0.25;
/// Processors have time for another worker from this share on. With less, that worker would do
/// little and compete with clients again; clients that wait for each reply leave some idle time
/// anyway.
const NEEDED_IDLE: f64 = 0.5;
/// Rounds after which a retirement is evaluated.
const TRIAL_ROUNDS: u32 = 5;
/// A retirement is undone if the remaining workers are saturated and less than this share of the
/// earlier bytes arrives, in less than this share of the earlier running time. Clients that wait
/// for each reply send somewhat less to fewer workers, and in return few requests wait for a
/// scheduler slice. Bytes alone do not decide: other requests may follow, such as single ones after
/// a pipeline.
const SERVED: f64 = 0.66;
/// A retirement is also undone if the bytes per read of saturated workers grow by this factor:
/// clients that do not wait for replies send more than is served, and their requests queue up.
const QUEUED: f64 = 1.5;
/// Consecutive such rounds before the retirement is undone.
const QUEUED_ROUNDS: u32 = 2;
/// Rounds without a retirement after more workers have become active.
const SETTLING_ROUNDS: u32 = 10;
/// The number of such rounds if workers became active within this many rounds of a retirement;
/// doubled each time, up to the maximum.
const HOLD_ROUNDS: u32 = 50;
const MAX_HOLD_ROUNDS: u32 = 3000;
/// A worker is relieved if its share of running time exceeds the mean of the active ones by this
/// much.
const UNEVEN: f64 = 0.15;
/// Consecutive uneven rounds before each relief.
const UNEVEN_ROUNDS: u32 = 3;

/// The measurements of a round.
#[derive(Clone, Debug, Default)]
pub(super) struct Round {
    /// The share of the round for which each active worker ran.
    pub(super) ran: Vec<f64>,
    /// The total time for which active workers waited for processors, as a share of the round.
    pub(super) waited: f64,
    /// Bytes that arrived.
    pub(super) arrived: u64,
    /// The number of reads that received them.
    pub(super) reads: u64,
    /// The total idle time of processors, as a share of the round.
    pub(super) idle: f64,
}

impl Round {
    fn ran(&self) -> f64 {
        self.ran.iter().sum()
    }

    /// The time for which workers ran or waited for a processor.
    fn wanted(&self) -> f64 {
        self.ran() + self.waited
    }
}

/// What to do after a round.
#[derive(Debug, PartialEq)]
pub(super) enum Decision {
    /// Set the number of active workers.
    Activate(usize),
    /// Move this share of one worker's requests to another.
    Relieve { busiest: usize, idlest: usize, share: f64 },
}

/// The measurements of consecutive rounds, added up.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    rounds: u32,
    ran: f64,
    wanted: f64,
    /// Each round's share of the wanted time that was waited.
    contended: f64,
    arrived: u64,
    reads: u64,
}

impl Sum {
    fn add(&mut self, round: &Round) {
        self.rounds += 1;
        self.ran += round.ran();
        self.wanted += round.wanted();
        self.contended += round.waited / round.wanted();
        self.arrived += round.arrived;
        self.reads += round.reads;
    }

    /// How much is served in a round compared with an earlier sum's, by bytes or by running time,
    /// whichever is more.
    fn served_since(&self, before: &Sum) -> f64 {
        let rounds = f64::from(before.rounds) / f64::from(self.rounds);
        let bytes = self.arrived as f64 / before.arrived as f64;
        bytes.max(self.ran / before.ran) * rounds
    }
}

/// A retirement under evaluation.
#[derive(Clone, Copy, Debug)]
struct Trial {
    before: Sum,
    after: Sum,
}

/// State kept between rounds.
#[derive(Debug)]
pub(super) struct Policy {
    workers: usize,
    active: usize,
    /// Consecutive contended rounds.
    contended: Sum,
    needed_rounds: u32,
    queued_rounds: u32,
    uneven_rounds: u32,
    trial: Option<Trial>,
    /// What is served now as a share of what was served with all workers: the product of the
    /// trials' results.
    served: f64,
    /// Bytes per read before the last retirement.
    bytes_per_read: f64,
    /// Remaining rounds before a worker may retire.
    hold_rounds: u32,
    /// The value that `hold_rounds` gets after the next retirement that is soon undone.
    next_hold_rounds: u32,
    /// Rounds since the last retirement.
    retired_rounds: u32,
}

impl Policy {
    /// A policy for this many workers, all active.
    pub(super) fn new(workers: usize) -> Self {
        Policy {
            workers,
            active: workers,
            contended: Sum::default(),
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

    /// The number of active workers.
    pub(super) fn active(&self) -> usize {
        self.active
    }

    /// Activates all workers, whatever the samples show.
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
        trial.after.add(round);
        if trial.after.rounds < TRIAL_ROUNDS {
            return None;
        }
        let Trial { before, after } = *trial;
        self.trial = None;
        if after.wanted < SATURATED * (self.active as f64) * f64::from(after.rounds) {
            return None;
        }
        let served = self.served * after.served_since(&before);
        if served >= SERVED {
            self.served = served.min(1.0);
            return None;
        }
        self.return_to(self.active + 1)
    }

    /// Undoes a retirement after which requests queue up.
    fn work_off(&mut self, round: &Round) -> Option<Decision> {
        let is_queued = self.is_saturated(round)
            && round.arrived as f64 > self.bytes_per_read * QUEUED * round.reads as f64;
        self.queued_rounds = if is_queued { self.queued_rounds + 1 } else { 0 };
        if self.active == self.workers || self.queued_rounds < QUEUED_ROUNDS {
            return None;
        }
        self.trial = None;
        self.return_to(self.active + 1)
    }

    /// Activates more workers and suspends retirements: for long if the last one is undone soon.
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
        let is_needed = round.ran() > NEEDED * self.active as f64 && round.idle >= NEEDED_IDLE;
        self.needed_rounds = if is_needed { self.needed_rounds + 1 } else { 0 };
        if self.active == self.workers || self.needed_rounds < NEEDED_ROUNDS {
            return None;
        }
        self.return_to((self.active * NEEDED_TIMES).min(self.workers))
    }

    /// Whether the active workers are runnable most of the time.
    fn is_saturated(&self, round: &Round) -> bool {
        round.wanted() >= SATURATED * self.active as f64
    }

    fn retire(&mut self, round: &Round) -> Option<Decision> {
        let left = self.active as f64 - 1.0;
        let is_contended = round.waited > round.wanted() * CONTENDED
            && (round.ran() <= SPARE * left || self.is_saturated(round))
            && round.idle < CONTENDED_IDLE;
        if !is_contended || self.trial.is_some() || self.hold_rounds > 0 {
            self.contended = Sum::default();
            return None;
        }
        self.contended.add(round);
        let before = self.contended;
        let is_long = before.rounds >= CONTENDED_ROUNDS && before.contended >= CONTENDED_SUM;
        if self.active == 1 || !is_long {
            return None;
        }
        self.trial = Some(Trial { before, after: Sum::default() });
        self.bytes_per_read = before.arrived as f64 / before.reads.max(1) as f64;
        self.retired_rounds = 0;
        self.change(self.active - 1)
    }

    fn change(&mut self, active: usize) -> Option<Decision> {
        self.active = active;
        self.trial = self.trial.filter(|trial| trial.after.rounds == 0);
        if active == self.workers {
            self.served = 1.0;
        }
        self.contended = Sum::default();
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
        // A load that cannot be divided, such as one busy connection, is not retried in each round,
        // since a worker goes through all its connections for it.
        self.uneven_rounds = 0;
        let share = (most - mean) / most;
        Some(Decision::Relieve { busiest, idlest, share })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs rounds until a decision, at most `most`.
    fn decided(policy: &mut Policy, round: &Round, most: u32) -> Option<(u32, Decision)> {
        (1..=most).find_map(|count| policy.decide(round).map(|decision| (count, decision)))
    }

    /// Two workers that compete with clients for two processors.
    fn contended() -> Round {
        Round { ran: vec![0.55, 0.5], waited: 0.9, arrived: 1000, reads: 100, idle: 0.0 }
    }

    #[test]
    fn a_worker_retires_where_processors_are_contended() {
        let mut policy = Policy::new(2);
        assert_eq!(decided(&mut policy, &contended(), 9), Some((2, Decision::Activate(1))));
        let alone = Round { ran: vec![0.98], waited: 0.02, arrived: 1000, reads: 100, idle: 0.02 };
        assert_eq!(decided(&mut policy, &alone, 1000), None, "there is always one");
    }

    #[test]
    fn slight_contention_retires_a_worker_later() {
        let mut policy = Policy::new(2);
        let slight = Round { ran: vec![0.75, 0.75], waited: 0.4, ..contended() };
        assert_eq!(decided(&mut policy, &slight, 9), Some((5, Decision::Activate(1))));
        let burst = Round { ran: vec![0.1, 0.1], waited: 1.8, ..contended() };
        assert_eq!(decided(&mut Policy::new(2), &burst, 1), None);
    }

    #[test]
    fn a_retirement_lasts_if_other_requests_follow() {
        let mut policy = Policy::new(2);
        assert_eq!(decided(&mut policy, &contended(), 9), Some((2, Decision::Activate(1))));
        let single = Round { ran: vec![0.98], arrived: 100, reads: 100, ..Round::default() };
        assert_eq!(decided(&mut policy, &single, 1000), None, "the worker runs as long as before");
        let mut policy = Policy::new(2);
        assert_eq!(decided(&mut policy, &contended(), 9), Some((2, Decision::Activate(1))));
        let few = Round { ran: vec![0.1], arrived: 10, reads: 10, ..Round::default() };
        assert_eq!(decided(&mut policy, &few, 1000), None, "the worker has time left");
    }

    #[test]
    fn no_worker_retires_if_each_has_its_own_processor() {
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
        assert_eq!(decided(&mut policy, &contended(), 9), Some((2, Decision::Activate(1))));
        let less = Round { ran: vec![0.5], waited: 0.5, arrived: 600, reads: 60, idle: 0.0 };
        assert_eq!(decided(&mut policy, &less, 9), Some((5, Decision::Activate(2))));
        assert_eq!(decided(&mut policy, &contended(), 49), None);
        assert_eq!(decided(&mut policy, &contended(), 9), Some((2, Decision::Activate(1))));
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

    /// A round in which all active workers want a processor all the time.
    fn round(active: usize, arrived: u64) -> Round {
        let ran = vec![0.5; active];
        Round { ran, waited: active as f64 / 2.0, arrived, reads: arrived / 10, idle: 0.0 }
    }

    #[test]
    fn retirements_are_soon_tried_again_after_one_that_lasted() {
        let mut policy = Policy::new(2);
        let needed = Round { ran: vec![0.95], arrived: 1000, reads: 100, idle: 0.9, waited: 0.0 };
        let alone = Round { idle: 0.2, ..needed.clone() };
        assert_eq!(decided(&mut policy, &contended(), 9), Some((2, Decision::Activate(1))));
        assert_eq!(decided(&mut policy, &needed, 9), Some((4, Decision::Activate(2))));
        assert_eq!(decided(&mut policy, &contended(), 99), Some((51, Decision::Activate(1))));
        assert_eq!(decided(&mut policy, &alone, 100), None);
        assert_eq!(decided(&mut policy, &needed, 9), Some((4, Decision::Activate(2))));
        assert_eq!(decided(&mut policy, &contended(), 99), Some((11, Decision::Activate(1))));
    }

    #[test]
    fn a_worker_is_back_where_requests_queue_up() {
        let mut policy = Policy::new(2);
        assert_eq!(decided(&mut policy, &contended(), 9), Some((2, Decision::Activate(1))));
        let enough = Round { ran: vec![0.98], reads: 80, arrived: 1000, ..Round::default() };
        assert_eq!(decided(&mut policy, &enough, 1000), None);
        let pipelined = Round { ran: vec![0.4], reads: 1, ..enough.clone() };
        assert_eq!(decided(&mut policy, &pipelined, 1000), None, "the worker has time left");
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
