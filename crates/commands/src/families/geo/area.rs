//! Search areas: circles and boxes, and the cells that cover one.

use super::geohash::{Cell, Position, Rectangle, STEPS, around, meters_between, meters_within};

/// Half the length of the equator on a map of Mercator, in meters.
const MERCATOR_MAX_M: f64 = 20_037_726.37;

/// The shape of an area around its center, in some unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Shape {
    Circle { radius: f64 },
    Box { width: f64, height: f64 },
}

/// The area of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Area {
    pub(super) center: Position,
    pub(super) shape: Shape,
    /// Meters per unit of the shape.
    pub(super) unit_m: f64,
}

impl Area {
    /// The distance of a position from the center in meters; `None` if the position is outside.
    pub(super) fn meters_to(&self, position: Position) -> Option<f64> {
        match self.shape {
            Shape::Circle { radius } => {
                let meters = meters_between(self.center, position);
                (meters <= radius * self.unit_m).then_some(meters)
            }
            Shape::Box { width, height } => {
                let sides = (width * self.unit_m, height * self.unit_m);
                meters_within(sides, self.center, position)
            }
        }
    }

    fn bounds(&self) -> Rectangle {
        let (width, height) = match self.shape {
            Shape::Circle { radius } => (radius, radius),
            Shape::Box { width, height } => (width / 2.0, height / 2.0),
        };
        around(self.center, self.unit_m * width, self.unit_m * height)
    }

    /// The greatest distance of a point of the area from its center, in meters.
    fn reach_m(&self) -> f64 {
        let reach = match self.shape {
            Shape::Circle { radius } => radius,
            Shape::Box { width, height } => {
                ((width / 2.0) * (width / 2.0) + (height / 2.0) * (height / 2.0)).sqrt()
            }
        };
        reach * self.unit_m
    }

    /// The cells that cover the area, in the order in which Redis searches them: the cell of the
    /// center, and those of its eight neighbours that are needed.
    pub(super) fn cells(&self) -> Vec<Cell> {
        let bounds = self.bounds();
        let mut cell = Cell::of(self.center, steps(self.reach_m(), self.center.latitude));
        if cell.steps > 1 && !reaches(cell, bounds) {
            cell = Cell::of(self.center, cell.steps - 1);
        }
        let Rectangle { longitudes, latitudes } = cell.rectangle();
        let is_near = |column: i32, row: i32| {
            let is_south = latitudes.min < bounds.latitudes.min;
            let is_north = latitudes.max > bounds.latitudes.max;
            let is_west = longitudes.min < bounds.longitudes.min;
            let is_east = longitudes.max > bounds.longitudes.max;
            let is_beyond = row < 0 && is_south
                || row > 0 && is_north
                || column < 0 && is_west
                || column > 0 && is_east;
            cell.steps < 2 || !is_beyond
        };
        let beside = [(0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1)];
        let near = beside.into_iter().filter(|(column, row)| is_near(*column, *row));
        let mut cells = vec![cell];
        for (number, (column, row)) in near.enumerate() {
            let other = cell.neighbor(column, row);
            // Near a pole, or with large cells, neighbours may be the same cell.
            if number == 0 || cells.last() != Some(&other) {
                cells.push(other);
            }
        }
        cells
    }
}

/// The number of times that the coordinates are halved, so that a cell has about the size of an
/// area.
fn steps(reach_m: f64, latitude: f64) -> u8 {
    if reach_m == 0.0 {
        return STEPS;
    }
    let (mut steps, mut reach_m) = (1_i32, reach_m);
    while reach_m < MERCATOR_MAX_M {
        reach_m *= 2.0;
        steps += 1;
    }
    // With these cells, nine cover most areas. Near the poles, degrees of longitude are shorter, so
    // cells must be larger.
    steps -= 2;
    if latitude.abs() > 66.0 {
        steps -= 1;
        if latitude.abs() > 80.0 {
            steps -= 1;
        }
    }
    steps.clamp(1, STEPS.into()) as u8
}

/// Whether the cells around one reach as far as the bounds.
fn reaches(cell: Cell, bounds: Rectangle) -> bool {
    let beside = |columns, rows| cell.neighbor(columns, rows).rectangle();
    let is_short = beside(0, 1).latitudes.max < bounds.latitudes.max
        || beside(0, -1).latitudes.min > bounds.latitudes.min
        || beside(1, 0).longitudes.max < bounds.longitudes.max
        || beside(-1, 0).longitudes.min > bounds.longitudes.min;
    !is_short
}
