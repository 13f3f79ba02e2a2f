//! What an output of Ultralytics' models is: decided once, from its shape and the file's metadata.

/// How boxes and scores lie in one row of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// `[4 + classes, boxes]`: centre, size and scores, each for all boxes.
    Yolo {
        /// Number of classes.
        classes: usize,
    },
    /// `[boxes, 5 + classes]`: centre, size, objectness and scores of each box.
    YoloV5 {
        /// Number of classes.
        classes: usize,
    },
    /// `[boxes, 6]`: corners, score and class, overlaps removed by the graph.
    EndToEnd {
        /// Number of classes, where it is known.
        classes: Option<usize>,
    },
}

/// Boxes that a graph gives which removes overlaps itself, where nothing else is said.
const END_TO_END_BOXES: usize = 300;

/// Why an output is no layout.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// No layout has this shape.
    #[error(
        "a row of shape {shape}{known} is not [4 + classes, boxes], [boxes, 5 + classes] or, end to end, [boxes, 6]"
    )]
    Impossible {
        /// The shape that was found, without the dimension of rows.
        shape: String,
        /// What is known of classes, as a part of the sentence.
        known: String,
    },
    /// Several have it.
    #[error(
        "a row of shape {shape}{known} may be {layouts}; name the head: yolo, yolo_v5 or end2end"
    )]
    Ambiguous {
        /// The shape that was found, without the dimension of rows.
        shape: String,
        /// What is known of classes, as a part of the sentence.
        known: String,
        /// The layouts that fit.
        layouts: String,
    },
}

impl Layout {
    /// The layout of an output whose row has these dimensions, `None` for those that the graph leaves open.
    ///
    /// `classes` and `end2end` come from the file's metadata. Without `classes` both dimensions must be known: there
    /// are more boxes than numbers for each of them.
    ///
    /// # Errors
    /// When no layout has this shape, or several.
    pub fn of(
        shape: &[Option<usize>],
        classes: Option<usize>,
        end2end: Option<bool>,
    ) -> Result<Layout, LayoutError> {
        let mut found = Vec::new();
        if let &[first, second] = shape {
            let counted = |wide: Option<usize>, long: Option<usize>, beside: usize| match classes {
                Some(classes) => (classes > 0 && wide == Some(beside + classes)).then_some(classes),
                None => {
                    let wide = wide.filter(|&it| it > beside && long.is_some_and(|long| long > it));
                    wide.map(|it| it - beside)
                }
            };
            let asked = end2end == Some(true);
            let usual = end2end.is_none() && first == Some(END_TO_END_BOXES);
            let is_end_to_end = second == Some(6) && (asked || usual);
            if is_end_to_end {
                found.push(Layout::EndToEnd { classes });
            }
            if !asked && !is_end_to_end {
                let yolo = counted(first, second, 4);
                found.extend(yolo.map(|classes| Layout::Yolo { classes }));
                let old = counted(second, first, 5);
                found.extend(old.map(|classes| Layout::YoloV5 { classes }));
            }
        }
        let side = |it: &Option<usize>| it.map_or("?".to_owned(), |it| it.to_string());
        let shape = format!("[{}]", shape.iter().map(side).collect::<Vec<_>>().join(", "));
        let known = match (classes, end2end) {
            (Some(classes), Some(true)) => format!(" for {classes} classes and end to end"),
            (Some(classes), _) => format!(" for {classes} classes"),
            (None, Some(true)) => " end to end".to_owned(),
            (None, _) => " for an unknown number of classes".to_owned(),
        };
        match *found {
            [layout] => Ok(layout),
            [] => Err(LayoutError::Impossible { shape, known }),
            _ => {
                let names: Vec<&str> = found.iter().map(|it| it.name()).collect();
                Err(LayoutError::Ambiguous { shape, known, layouts: names.join(" or ") })
            }
        }
    }

    /// Its name as the parameter `head` has it.
    pub fn name(self) -> &'static str {
        match self {
            Layout::Yolo { .. } => "yolo",
            Layout::YoloV5 { .. } => "yolo_v5",
            Layout::EndToEnd { .. } => "end2end",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(
        shape: &[usize],
        classes: Option<usize>,
        end2end: Option<bool>,
        expect: Result<Layout, &str>,
    ) {
        // Zero stands for a dimension that the graph leaves open.
        let shape: Vec<Option<usize>> = shape.iter().map(|&it| (it > 0).then_some(it)).collect();
        let found = Layout::of(&shape, classes, end2end).map_err(|it| it.to_string());
        assert_eq!(found, expect.map_err(str::to_owned));
    }

    #[test]
    fn shape_and_classes_say_which_it_is() {
        check(&[84, 8400], Some(80), None, Ok(Layout::Yolo { classes: 80 }));
        check(&[84, 0], Some(80), Some(false), Ok(Layout::Yolo { classes: 80 }));
        check(&[0, 85], Some(80), None, Ok(Layout::YoloV5 { classes: 80 }));
        check(&[25200, 85], None, None, Ok(Layout::YoloV5 { classes: 80 }));
        check(&[5, 8400], None, None, Ok(Layout::Yolo { classes: 1 }));
        check(&[25200, 6], Some(1), None, Ok(Layout::YoloV5 { classes: 1 }));
        check(&[300, 6], Some(1), Some(false), Ok(Layout::YoloV5 { classes: 1 }));
    }

    #[test]
    fn an_end_to_end_graph_says_so_or_gives_three_hundred_boxes() {
        check(&[300, 6], Some(80), None, Ok(Layout::EndToEnd { classes: Some(80) }));
        check(&[300, 6], None, None, Ok(Layout::EndToEnd { classes: None }));
        check(&[100, 6], Some(1), Some(true), Ok(Layout::EndToEnd { classes: Some(1) }));
        check(&[0, 6], Some(3), Some(true), Ok(Layout::EndToEnd { classes: Some(3) }));
    }

    #[test]
    fn what_fits_no_layout_or_several_is_said() {
        let end = "is not [4 + classes, boxes], [boxes, 5 + classes] or, end to end, [boxes, 6]";
        let text = format!("a row of shape [84, 8400] for 79 classes {end}");
        check(&[84, 8400], Some(79), None, Err(&text));
        let text = format!("a row of shape [84, 8400] for 80 classes and end to end {end}");
        check(&[84, 8400], Some(80), Some(true), Err(&text));
        let text = format!("a row of shape [100, 8, 8] for an unknown number of classes {end}");
        check(&[100, 8, 8], None, None, Err(&text));
        let text = format!("a row of shape [?, 84] for an unknown number of classes {end}");
        check(&[0, 84], None, None, Err(&text));
        let text = format!("a row of shape [4, 8400] for 0 classes {end}");
        check(&[4, 8400], Some(0), None, Err(&text));
        let text = "a row of shape [84, 85] for 80 classes may be yolo or yolo_v5; name the head: yolo, yolo_v5 or \
                    end2end";
        check(&[84, 85], Some(80), None, Err(text));
    }
}
