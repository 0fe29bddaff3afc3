//! Geohashes as in Redis: longitude and latitude are bisected in turn, which assigns each position
//! a 52-bit number, the score of the member at that position.
//!
//! All arithmetic is done in the same order as by Redis, since results must agree to the last bit.

/// The number of times that each coordinate is halved.
pub(super) const STEPS: u8 = 26;

const EARTH_RADIUS_M: f64 = 6_372_797.560_856;
const RADIANS_PER_DEGREE: f64 = std::f64::consts::PI / 180.0;

/// A position, in degrees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Position {
    pub(super) longitude: f64,
    pub(super) latitude: f64,
}

/// Bounds of a coordinate, in degrees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Extent {
    pub(super) min: f64,
    pub(super) max: f64,
}

impl Extent {
    pub(super) const LONGITUDES: Extent = Extent { min: -180.0, max: 180.0 };
    /// The latitudes of Web Mercator (EPSG:3857).
    pub(super) const LATITUDES: Extent = Extent { min: -85.051_128_78, max: 85.051_128_78 };
    const ALL_LATITUDES: Extent = Extent { min: -90.0, max: 90.0 };

    pub(super) fn contains(self, coordinate: f64) -> bool {
        (self.min..=self.max).contains(&coordinate)
    }

    fn len(self) -> f64 {
        self.max - self.min
    }

    /// The index of the part that contains a coordinate, if the extent has two to the power of
    /// `steps` parts.
    fn part_of(self, coordinate: f64, steps: u8) -> u32 {
        let share = (coordinate - self.min) / self.len();
        (share * (1_u64 << steps) as f64) as u32
    }

    /// The bounds of a part.
    fn part(self, part: u32, steps: u8) -> Extent {
        let parts = (1_u64 << steps) as f64;
        let border = |part: u32| self.min + (f64::from(part) / parts) * self.len();
        Extent { min: border(part), max: border(part.wrapping_add(1)) }
    }
}

/// A rectangle of longitudes and latitudes, in degrees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rectangle {
    pub(super) longitudes: Extent,
    pub(super) latitudes: Extent,
}

/// A cell of the earth: latitudes and longitudes halved `steps` times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    /// The bits of longitudes at odd positions, those of latitudes at even ones.
    pub(super) bits: u64,
    pub(super) steps: u8,
}

const LATITUDE_BITS: u64 = 0x5555_5555_5555_5555;

/// Inserts a zero bit between every two bits.
fn spread(bits: u32) -> u64 {
    let places = [
        (16, 0x0000_ffff_0000_ffff),
        (8, 0x00ff_00ff_00ff_00ff),
        (4, 0x0f0f_0f0f_0f0f_0f0f),
        (2, 0x3333_3333_3333_3333),
        (1, LATITUDE_BITS),
    ];
    places.iter().fold(u64::from(bits), |bits, (shift, mask)| (bits | bits << shift) & mask)
}

/// The bits at even positions, compacted.
fn gather(bits: u64) -> u32 {
    let places = [
        (1, 0x3333_3333_3333_3333),
        (2, 0x0f0f_0f0f_0f0f_0f0f),
        (4, 0x00ff_00ff_00ff_00ff),
        (8, 0x0000_ffff_0000_ffff),
        (16, 0x0000_0000_ffff_ffff),
    ];
    let bits = bits & LATITUDE_BITS;
    places.iter().fold(bits, |bits, (shift, mask)| (bits | bits >> shift) & mask) as u32
}

impl Cell {
    /// The cell of a position, which must be within Redis' extents.
    pub(super) fn of(position: Position, steps: u8) -> Self {
        Cell::within(position, steps, Extent::LATITUDES)
    }

    fn within(position: Position, steps: u8, latitudes: Extent) -> Self {
        let longitude = Extent::LONGITUDES.part_of(position.longitude, steps);
        let latitude = latitudes.part_of(position.latitude, steps);
        Cell { bits: spread(latitude) | spread(longitude) << 1, steps }
    }

    pub(super) fn rectangle(self) -> Rectangle {
        let (longitude, latitude) = (gather(self.bits >> 1), gather(self.bits));
        Rectangle {
            longitudes: Extent::LONGITUDES.part(longitude, self.steps),
            latitudes: Extent::LATITUDES.part(latitude, self.steps),
        }
    }

    /// The cell that many columns to the east and rows to the north; both wrap around.
    pub(super) fn neighbor(self, columns: i32, rows: i32) -> Self {
        let mask = u32::MAX >> (u32::BITS - u32::from(self.steps));
        let moved = |place: u32, by: i32| match by {
            // Without a move, a place beyond the last row, at the edge of the map, is kept.
            0 => spread(place),
            by => spread(place.wrapping_add_signed(by) & mask),
        };
        let longitude = moved(gather(self.bits >> 1), columns);
        Cell { bits: moved(gather(self.bits), rows) | longitude << 1, ..self }
    }

    /// The scores of positions in the cell: the first one, and the one after the last.
    pub(super) fn scores(self) -> (f64, f64) {
        let score = |bits: u64| (bits << (2 * (STEPS - self.steps))) as f64;
        (score(self.bits), score(self.bits.wrapping_add(1)))
    }
}

/// The score of a position.
pub(super) fn score_of(position: Position) -> f64 {
    Cell::of(position, STEPS).bits as f64
}

/// The position in the middle of a score's cell; the score may be any number.
pub(super) fn position_of(score: f64) -> Position {
    let Rectangle { longitudes, latitudes } =
        Cell { bits: converted(score), steps: STEPS }.rectangle();
    let middle =
        |part: Extent, whole: Extent| f64::midpoint(part.min, part.max).clamp(whole.min, whole.max);
    Position {
        longitude: middle(longitudes, Extent::LONGITUDES),
        latitude: middle(latitudes, Extent::LATITUDES),
    }
}

/// Converts a number to an integer, with the result of x86 for numbers that do not fit.
fn converted(number: f64) -> u64 {
    const HALF: f64 = (1_u64 << 63) as f64;
    if number >= 2.0 * HALF {
        0
    } else if number >= HALF {
        number as u64
    } else if number >= -HALF {
        (number as i64).cast_unsigned()
    } else {
        1 << 63
    }
}

/// Formats a position as a standard geohash of eleven characters, for which latitudes range from
/// -90 to 90 degrees.
pub(super) fn standard_geohash(position: Position) -> String {
    const ALPHABET: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
    let bits = Cell::within(position, STEPS, Extent::ALL_LATITUDES).bits;
    let character = |index: u32| {
        // No bits are left for the last character.
        let value = if index == 10 { 0 } else { bits >> (52 - 5 * (index + 1)) & 0x1f };
        ALPHABET.get(value as usize).copied().map_or('0', char::from)
    };
    (0..11).map(character).collect()
}

fn radians(degrees: f64) -> f64 {
    degrees * RADIANS_PER_DEGREE
}

fn degrees(radians: f64) -> f64 {
    radians / RADIANS_PER_DEGREE
}

/// The distance between two latitudes in meters.
fn meters_between_latitudes(first: f64, second: f64) -> f64 {
    EARTH_RADIUS_M * (radians(second) - radians(first)).abs()
}

/// The distance between two positions on the great circle in meters, by the haversine formula.
pub(super) fn meters_between(first: Position, second: Position) -> f64 {
    let v = ((radians(second.longitude) - radians(first.longitude)) / 2.0).sin();
    if v == 0.0 {
        return meters_between_latitudes(first.latitude, second.latitude);
    }
    let (first, second) = (radians(first.latitude), radians(second.latitude));
    let u = ((second - first) / 2.0).sin();
    let a = u * u + first.cos() * second.cos() * v * v;
    2.0 * EARTH_RADIUS_M * a.sqrt().asin()
}

/// The distance to a position in meters, if it lies within a rectangle of this width and height in
/// meters around the center.
pub(super) fn meters_within(
    (width_m, height_m): (f64, f64),
    center: Position,
    position: Position,
) -> Option<f64> {
    if meters_between_latitudes(position.latitude, center.latitude) > height_m / 2.0 {
        return None;
    }
    let beside = Position { longitude: center.longitude, ..position };
    let is_within = meters_between(position, beside) <= width_m / 2.0;
    is_within.then(|| meters_between(center, position))
}

/// The longitudes and latitudes `width_m` to the east and west and `height_m` to the north and
/// south of a position, which may be out of range.
pub(super) fn around(position: Position, width_m: f64, height_m: f64) -> Rectangle {
    let Position { longitude, latitude } = position;
    let rows = degrees(height_m / EARTH_RADIUS_M);
    // Degrees of longitude are shorter where the distance from the equator is greater.
    let edge = if latitude < 0.0 { latitude - rows } else { latitude + rows };
    let columns = degrees(width_m / EARTH_RADIUS_M / radians(edge).cos());
    Rectangle {
        longitudes: Extent { min: longitude - columns, max: longitude + columns },
        latitudes: Extent { min: latitude - rows, max: latitude + rows },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PALERMO: Position = Position { longitude: 13.361_389, latitude: 38.115_556 };
    const CATANIA: Position = Position { longitude: 15.087_269, latitude: 37.502_669 };

    #[test]
    fn scores_equal_those_of_redis() {
        // The replies of redis-server 8.0 to GEOADD, GEOPOS, GEOHASH and GEODIST.
        let scores = [PALERMO, CATANIA].map(score_of);
        assert_eq!(scores, [3_479_099_956_230_698.0, 3_479_447_370_796_909.0]);
        let places = scores.map(position_of);
        assert_eq!(
            places[0],
            Position { longitude: 13.361_389_338_970_184, latitude: 38.115_556_395_496_3 }
        );
        assert_eq!(places.map(standard_geohash), ["sqc8b49rny0", "sqdtr74hyu0"]);
        assert_eq!(format!("{:.4}", meters_between(places[0], places[1])), "166274.1516");
    }

    #[test]
    fn bits_are_spread_and_gathered() {
        for bits in [0, 1, 0x3ff_ffff, u32::MAX, 0x1234_5678] {
            assert_eq!(gather(spread(bits)), bits);
            assert_eq!(gather(spread(bits) << 1), 0);
        }
    }

    #[test]
    fn neighbors_of_cells_wrap_around_the_earth() {
        let cell = Cell::of(PALERMO, 5);
        let Rectangle { longitudes, latitudes } = cell.rectangle();
        let east = cell.neighbor(1, 0).rectangle();
        assert_eq!((east.longitudes.min, east.latitudes), (longitudes.max, latitudes));
        assert_eq!(cell.neighbor(0, -1).rectangle().latitudes.max, latitudes.min);
        assert_eq!(cell.neighbor(32, 32), cell);
        let (min, max) = cell.scores();
        assert!((min..max).contains(&score_of(PALERMO)));
    }

    #[test]
    fn any_score_has_a_valid_position() {
        for score in [-1.0, 1e30, -1e30, f64::INFINITY, f64::NEG_INFINITY, 0.5, 1e19] {
            let Position { longitude, latitude } = position_of(score);
            assert!(Extent::LONGITUDES.contains(longitude) && Extent::LATITUDES.contains(latitude));
        }
    }
}
