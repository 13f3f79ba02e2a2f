//! What a page is made of.

use serde::Serialize;

/// What a page shows, in this order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Page {
    /// The heading.
    pub title: String,
    /// What was found, in a sentence or two.
    pub verdict: String,
    /// The most important figures: a name and a value with its unit.
    pub facts: Vec<(String, String)>,
    /// Reasons to doubt them.
    pub warnings: Vec<String>,
    /// Charts; those without a place are not shown.
    pub charts: Vec<Chart>,
    /// Tables; those without a row are not shown.
    pub tables: Vec<Table>,
    /// Charts that come after the tables.
    pub details: Vec<Chart>,
    /// Texts to copy, such as configurations.
    pub listings: Vec<Listing>,
    /// What was measured, and how.
    pub notes: Vec<String>,
}

/// A chart with lines or points.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Chart {
    /// The heading.
    #[serde(skip)]
    pub title: String,
    /// What is to the right, with its unit.
    pub x_label: String,
    /// What is up, with its unit.
    pub y_label: String,
    /// Places to the right, ascending.
    pub x: Vec<f64>,
    /// What lies over them.
    pub series: Vec<Series>,
    /// Vertical lines.
    pub marks: Vec<Mark>,
    /// Points, except for series that are lines; otherwise all are lines.
    pub points: bool,
    /// What is said of each place; may be empty.
    pub names: Vec<Name>,
}

/// What is said of a place of a chart.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Name {
    /// Beside its point, where there is room.
    pub label: String,
    /// Beside its point, where there is none for the label.
    pub short: String,
    /// Below the chart, when it is pointed at.
    pub text: String,
    /// The one to choose.
    pub best: bool,
}

/// One line, or one kind of points.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Series {
    /// For the legend.
    pub name: String,
    /// A value for each place of the chart, or none.
    pub values: Vec<Option<f64>>,
    /// A line in a chart of points.
    pub line: bool,
}

/// A vertical line.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Mark {
    /// Where.
    pub x: f64,
    /// What begins there.
    pub label: String,
}

/// A table.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    /// The heading.
    pub title: String,
    /// Its columns. Those in which no row has anything are not shown.
    pub columns: Vec<String>,
    /// Its rows, in their first order.
    pub rows: Vec<Row>,
}

/// A row of a table.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Row {
    /// A cell for each column: a number, a text or null.
    pub cells: Vec<serde_json::Value>,
    /// What is said of it beside its first text, or its first cell: that it is the one to choose.
    pub mark: Option<&'static str>,
}

/// A text to copy.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Listing {
    /// The heading.
    pub title: String,
    /// As it is.
    pub text: String,
}

impl Page {
    /// The charts that have a place, in the order in which they are shown.
    pub(super) fn shown_charts(&self) -> impl Iterator<Item = &Chart> {
        self.charts.iter().chain(&self.details).filter(|it| !it.x.is_empty())
    }
}
