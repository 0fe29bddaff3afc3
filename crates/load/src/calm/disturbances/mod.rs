//! The disturbances. Each is a row of literals below the functions that it names.

mod clients;
mod collections;
mod keyspace;
mod process;
mod row;
mod values;

pub(crate) use row::Disturbance;

/// All disturbances, in the order in which they run.
pub(crate) fn all() -> impl Iterator<Item = &'static Disturbance> {
    [process::ALL, values::ALL, collections::ALL, keyspace::ALL, clients::ALL].into_iter().flatten()
}
