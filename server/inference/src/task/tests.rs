//! What holds for every row of the table.

use super::*;

#[test]
fn every_name_and_alias_is_read() {
    for task in Task::ALL {
        assert_eq!(Task::from_name(task.name()), Some(task));
        for alias in task.facts().aliases {
            assert_eq!(Task::from_name(alias), Some(task));
        }
    }
    assert_eq!(Task::from_name("ner"), Some(Task::TokenClassification));
    assert_eq!(Task::from_name("text-clasification"), None);
}

#[test]
fn all_tasks_are_listed_in_the_order_of_their_declaration() {
    let numbers: Vec<usize> = Task::ALL.iter().map(|it| *it as usize).collect();
    assert_eq!(numbers, (0..Task::ALL.len()).collect::<Vec<_>>());
}

#[test]
fn a_row_is_of_the_inputs_that_its_form_needs() {
    for task in Task::ALL {
        let facts = task.facts();
        for inputs in facts.inputs {
            let kinds: Vec<InputKind> = inputs.iter().map(|it| it.kind).collect();
            let fits = match facts.row {
                RowForm::One => {
                    matches!(kinds[..], [InputKind::One] | [InputKind::One, _])
                        && !kinds.contains(&InputKind::List)
                }
                RowForm::Labels => kinds == [InputKind::One],
                RowForm::Compared | RowForm::Ranked => kinds == [InputKind::One, InputKind::List],
                RowForm::Towers => kinds.iter().all(|it| *it == InputKind::One),
            };
            assert!(fits, "{task}: {kinds:?}");
        }
    }
}

#[test]
fn an_architecture_is_for_one_task() {
    for task in Task::ALL {
        for name in task.facts().architectures {
            let of = |it: &Task| it.facts().architectures.iter().any(|it| name.ends_with(it));
            let tasks: Vec<Task> = Task::ALL.into_iter().filter(of).collect();
            assert_eq!(tasks, [task], "{name}");
        }
    }
}
