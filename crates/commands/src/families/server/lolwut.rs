//! LOLWUT: draws the calm sea after which nagi is named. The same seed draws the same picture.

use crate::runtime::arguments::is;
use crate::{Category, Command, Context, Error, Flags, Group, Keys, Notes, REDIS_VERSION, VERSION};
use nagi_proto::Args;
use nagi_store::parse_i64;

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[&LOLWUT];

/// The maximum size of a picture, in characters.
const MAX_COLUMNS: i64 = 200;
const MAX_ROWS: i64 = 60;

fn lolwut<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let mut numbers = args.from(1).collect::<Vec<_>>();
    // VERSION is accepted, but there is only one picture.
    if let [option, version, ..] = numbers.as_slice()
        && is(option, "VERSION")
    {
        parse_i64(version).ok_or(Error::NOT_AN_INTEGER)?;
        numbers.drain(..2);
    }
    let numbers = numbers.into_iter().map(|word| parse_i64(word).ok_or(Error::NOT_AN_INTEGER));
    let numbers = numbers.collect::<Result<Vec<_>, _>>()?;
    let number = |place: usize, default: i64| numbers.get(place).copied().unwrap_or(default);
    let columns = number(0, 66).clamp(10, MAX_COLUMNS);
    let rows = number(1, 16).clamp(6, MAX_ROWS);
    let seed = number(2, i64::try_from(cx.db.now_ms()).unwrap_or(0) % 1_000_000);
    let mut picture = Picture::new(columns, rows);
    picture.draw(&mut Random(fastrand::Rng::with_seed(seed.cast_unsigned())));
    let text = format!(
        "{}\nThe sea when the wind drops: nagi. Sea number {seed}. Redis ver. {REDIS_VERSION}, \
         nagi ver. {VERSION}\n",
        picture.text()
    );
    cx.reply.text(&text);
    Ok(())
}

pub(crate) static LOLWUT: Command = Command {
    name: "LOLWUT",
    syntax: "[VERSION version] [columns] [rows] [seed]",
    arity: -1,
    flags: Flags::READONLY.union(Flags::FAST),
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "5.0.0",
    notes: Notes::of(""),
    summary: "Draws the sea, another one each time or the one that a seed names",
    subcommands: &[],
    run: lolwut,
};

/// A picture of dots. A Braille character has eight dots: two columns of four.
struct Picture {
    width: i64,
    height: i64,
    dots: Vec<bool>,
}

impl Picture {
    fn new(columns: i64, rows: i64) -> Self {
        let (width, height) = (columns * 2, rows * 4);
        let count = usize::try_from(width * height).unwrap_or(0);
        Picture { width, height, dots: vec![false; count] }
    }

    /// The index of a dot, if it is within the picture.
    fn place(&self, x: i64, y: i64) -> Option<usize> {
        let is_inside = (0..self.width).contains(&x) && (0..self.height).contains(&y);
        usize::try_from(y * self.width + x).ok().filter(|_| is_inside)
    }

    fn set(&mut self, x: i64, y: i64) {
        let place = self.place(x, y);
        if let Some(dot) = place.and_then(|place| self.dots.get_mut(place)) {
            *dot = true;
        }
    }

    fn is_set(&self, x: i64, y: i64) -> bool {
        self.place(x, y).and_then(|place| self.dots.get(place)).copied().unwrap_or(false)
    }

    /// Draws a setting sun, its light on the water, and the other waves, which become fewer and
    /// shorter with the distance.
    fn draw(&mut self, random: &mut Random) {
        let horizon = self.height * 2 / 5;
        let sun = self.width / 4 + random.below(self.width / 2);
        let radius = self.height / 5 + random.below(self.height / 8 + 1);
        for y in 0..horizon {
            for x in 0..self.width {
                let (across, up) = (x - sun, horizon - y);
                if across * across + up * up <= radius * radius {
                    self.set(x, y);
                }
            }
        }
        (0..self.width).for_each(|x| self.set(x, horizon));
        for y in horizon + 2..self.height {
            let depth = y - horizon;
            self.dash(sun + random.around(radius / 2 + depth / 6), y, radius / 2, random);
            for _ in 0..self.width * depth / (self.height * 6) {
                self.dash(random.below(self.width), y, 2 + depth / 3, random);
            }
        }
    }

    fn dash(&mut self, middle: i64, y: i64, longest: i64, random: &mut Random) {
        let half = 1 + random.below(longest.max(1));
        (middle - half..=middle + half).for_each(|x| self.set(x, y));
    }

    fn text(&self) -> String {
        // The dots of a Braille pattern by their bits (Unicode, chapter 21).
        const BITS: [(i64, i64, u32); 8] = [
            (0, 0, 0x01),
            (0, 1, 0x02),
            (0, 2, 0x04),
            (1, 0, 0x08),
            (1, 1, 0x10),
            (1, 2, 0x20),
            (0, 3, 0x40),
            (1, 3, 0x80),
        ];
        let mut text = String::new();
        for y in (0..self.height).step_by(4) {
            for x in (0..self.width).step_by(2) {
                let dots =
                    BITS.iter().filter(|(across, down, _)| self.is_set(x + across, y + down));
                let bits: u32 = dots.map(|(.., bit)| bit).sum();
                text.extend(char::from_u32(0x2800 + bits));
            }
            text.push('\n');
        }
        text
    }
}

/// Random numbers from a seed, for a picture.
struct Random(fastrand::Rng);

impl Random {
    /// A number from 0 to `end`, excluding `end`; 0 if there is none.
    fn below(&mut self, end: i64) -> i64 {
        self.0.i64(0..end.max(1))
    }

    /// A number from `-most` to `most`.
    fn around(&mut self, most: i64) -> i64 {
        self.below(2 * most + 1) - most
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Bench, converse};

    #[test]
    fn the_same_seed_draws_the_same_picture() {
        let mut bench = Bench::new();
        let first = bench.call(&["LOLWUT", "40", "8", "7"]);
        assert_eq!(bench.call(&["LOLWUT", "VERSION", "6", "40", "8", "7"]), first);
        assert_ne!(bench.call(&["LOLWUT", "40", "8", "8"]), first);
        let picture = first.split_once('|').unwrap().1;
        assert!(picture.lines().take(8).all(|line| line.chars().count() == 40), "{first}");
        assert!(picture.contains("Redis ver. 7.2.4"), "{first}");
        assert_eq!(bench.call(&["LOLWUT"]).lines().count(), 16 + 3);
    }

    #[test]
    fn extreme_sizes_draw_a_picture_of_bounded_size() {
        converse(
            "LOLWUT x => -ERR value is not an integer or out of range|
             LOLWUT VERSION x => -ERR value is not an integer or out of range|
             LOLWUT VERSION 5 1 x => -ERR value is not an integer or out of range|",
        );
        let mut bench = Bench::new();
        let most = i64::MAX.to_string();
        let least = i64::MIN.to_string();
        assert!(bench.call(&["LOLWUT", &most, &most, &most]).len() < 50_000);
        assert!(bench.call(&["LOLWUT", &least, &least, &least]).len() < 500);
    }
}
