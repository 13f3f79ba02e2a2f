"""What was checked, what was wrong, and what was left out."""


class Report:
    """Prints as it goes; counts. `strict`: a check that was left out for want of a required program is a failure."""

    def __init__(self, strict):
        self.strict = strict
        self.problems = []
        self.left_out = []
        self.failed_for_want = False

    def ok(self, what):
        """Something holds."""
        print(f"ok       {what}")

    def problem(self, where, text):
        """Something does not."""
        self.problems.append(f"{where}: {text}")
        print(f"PROBLEM  {where}: {text}", flush=True)

    def skipped(self, what, why, required=True):
        """Something could not be looked at."""
        self.left_out.append(f"{what}: {why}")
        self.failed_for_want |= required and self.strict
        print(f"SKIPPED  {what}: {why}")

    def note(self, text):
        """Something to know."""
        print(f"--       {text}", flush=True)

    def count(self):
        """How many problems there are so far, to tell whether a check found any."""
        return len(self.problems)

    def end(self):
        """The last lines; the exit status."""
        print()
        for it in self.left_out:
            print(f"skipped: {it}")
        for it in self.problems:
            print(f"problem: {it}")
        if self.problems:
            print(f"{len(self.problems)} problems")
        elif self.failed_for_want:
            print("nothing was wrong, but not everything was checked, and CI=true")
        else:
            print("nothing was wrong")
        return 1 if self.problems or self.failed_for_want else 0
