//! Findings as a page: one HTML file that needs no network, with charts and tables that can be sorted.
//!
//! A [`Page`] is data. What shows it is the script beside this file, with the charting library uPlot, which is part of
//! the program.

use std::{fs, path::Path};

use serde::Serialize;

use crate::Error;

pub mod course;
mod limit;
mod report;

const HTML: &str = include_str!("assets/page.html");
const PAGE_CSS: &str = include_str!("assets/page.css");
const PAGE_JS: &str = include_str!("assets/page.js");
const UPLOT_CSS: &str = include_str!("assets/uplot.min.css");
const UPLOT_JS: &str = include_str!("assets/uplot.min.js");

/// What a page shows, in this order.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Page {
    /// The heading.
    pub title: String,
    /// The most important figures: a name and a value with its unit.
    pub facts: Vec<(String, String)>,
    /// Reasons to doubt them.
    pub warnings: Vec<String>,
    /// Charts.
    pub charts: Vec<Chart>,
    /// Tables.
    pub tables: Vec<Table>,
    /// Texts to copy, such as configurations.
    pub listings: Vec<Listing>,
    /// What was measured, and how.
    pub notes: Vec<String>,
}

/// A chart with lines or points.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Chart {
    /// The heading.
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
    /// What is said of each place when it is pointed at; may be empty.
    pub names: Vec<String>,
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
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Table {
    /// The heading.
    pub title: String,
    /// Its columns.
    pub columns: Vec<String>,
    /// Its rows, in their first order.
    pub rows: Vec<Row>,
}

/// A row of a table.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Row {
    /// A cell for each column: a number, a text or null.
    pub cells: Vec<serde_json::Value>,
    /// The one to choose.
    pub best: bool,
}

/// A text to copy.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Listing {
    /// The heading.
    pub title: String,
    /// As it is.
    pub text: String,
}

impl Page {
    /// The file's text.
    pub fn to_html(&self) -> String {
        let findings = serde_json::to_string(self).expect("a page is JSON");
        // Nothing in the data may end the element that holds it.
        let findings = findings.replace('<', "\\u003c");
        let title = self.title.replace('&', "&amp;").replace('<', "&lt;");
        let parts = [
            ("{title}", title.as_str()),
            ("{uplot_css}", UPLOT_CSS),
            ("{page_css}", PAGE_CSS),
            ("{findings}", &findings),
            ("{uplot_js}", UPLOT_JS),
            ("{page_js}", PAGE_JS),
        ];
        let mut html = String::new();
        let mut rest = HTML;
        for (place, part) in parts {
            let (before, after) = rest.split_once(place).unwrap_or((rest, ""));
            html.push_str(before);
            html.push_str(part);
            rest = after;
        }
        html + rest
    }

    /// Writes the file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        let failed = |source| Error::File { path: path.to_owned(), source };
        fs::write(path, self.to_html()).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_the_data_can_end_its_element_or_stand_for_another_part() {
        let title = "</script><script>alert(1)</script> {page_js} {findings}".to_owned();
        let html = Page { title, ..Page::default() }.to_html();
        assert_eq!(html.matches("alert(1)").count(), 2, "in the title and in the data");
        assert_eq!(html.matches("<script>").count(), 2, "uPlot's and the page's");
        assert!(html.contains("&lt;/script>") && html.contains(r"\u003c/script>"));
        assert_eq!(html.matches(PAGE_JS).count(), 1);
        assert!(html.trim_end().ends_with("</html>"));
    }

    #[test]
    fn the_page_asks_for_nothing_from_a_network() {
        let html = Page::default().to_html();
        for link in ["src=", "href=", "@import", "url(", "fetch(", "XMLHttpRequest"] {
            assert!(!html.contains(link), "{link}");
        }
    }
}
