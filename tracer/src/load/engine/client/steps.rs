//! The single steps of a script, and what is said when they fail.

use super::*;

impl Machine {
    #[inline]
    pub(super) fn evaluate(
        &mut self,
        scripts: &Scripts,
        expression: &Expression<usize>,
    ) -> Result<Value, AbortReason> {
        let mut scope = Scope {
            random: &mut self.streams.functions,
            script: self.script,
            command: self.command,
        };
        let value = expression.evaluate(&self.variables, &mut scope);
        value.map_err(|EvaluationError(problem)| self.meta_failure(scripts, problem))
    }

    /// Adds a statement to the request; true if the request is to be sent now.
    pub(super) fn write_statement(
        &mut self,
        scripts: &Scripts,
        index: usize,
    ) -> Result<bool, AbortReason> {
        let statement = &scripts.statements[index];
        if self.in_pipeline && statement.results.is_some() {
            return Err(self.meta_failure(scripts, "it is not allowed in a pipeline".to_owned()));
        }
        if !statement.parse.is_empty() && !self.prepared[index] {
            self.request.extend_from_slice(&statement.parse);
            self.parsing.push((self.awaited_count, index));
        }
        let filled = statement.template.fill(&self.variables, &mut self.request);
        filled
            .map_err(|error| AbortReason::Protocol(format!("{}: {error}", self.place(scripts))))?;
        if self.in_pipeline {
            without_sync(&mut self.request);
            return Ok(false);
        }
        self.results_of = statement.results.is_some().then_some(index);
        Ok(true)
    }

    /// Enters the pipeline; what it needs prepared is prepared before, each statement by itself: a
    /// Parse inside would take the snapshot that BEGIN ISOLATION LEVEL … must come before.
    pub(super) fn start_pipeline(
        &mut self,
        scripts: &Scripts,
        statements: &[usize],
    ) -> Result<Option<Progress>, AbortReason> {
        if scripts.protocol == Protocol::Simple {
            let problem = "the simple protocol has no pipelines; use -M extended or prepared";
            return Err(self.meta_failure(scripts, problem.to_owned()));
        }
        if self.in_pipeline {
            return Err(self.meta_failure(scripts, "a pipeline is open already".to_owned()));
        }
        self.in_pipeline = true;
        if scripts.protocol == Protocol::Extended {
            return Ok(None);
        }
        let mut count = 0;
        for &index in statements.iter().filter(|&&index| !self.prepared[index]) {
            self.request.extend_from_slice(&scripts.statements[index].parse);
            write_sync(&mut self.request);
            self.parsing.push((count, index));
            count += 1;
        }
        if count == 0 {
            return Ok(None);
        }
        self.state = State::Preparing;
        Ok(Some(self.send(count)))
    }

    pub(super) fn sync_pipeline(&mut self, scripts: &Scripts) -> Result<(), AbortReason> {
        if !self.in_pipeline {
            return Err(self.meta_failure(scripts, "no pipeline is open".to_owned()));
        }
        write_sync(&mut self.request);
        self.awaited_count += 1;
        Ok(())
    }

    /// A negative time is over at once.
    pub(super) fn sleep_time(
        &self,
        scripts: &Scripts,
        time: SleepTime,
        unit: TimeUnit,
    ) -> Result<Duration, AbortReason> {
        let amount = match time {
            SleepTime::Fixed(amount) => amount,
            SleepTime::Variable(index) => self.sleep_amount(scripts, index)?,
        };
        let microseconds = amount.saturating_mul(unit.microseconds());
        Ok(Duration::from_micros(u64::try_from(microseconds).unwrap_or(0)))
    }

    /// The integer that the variable's text begins with.
    fn sleep_amount(&self, scripts: &Scripts, index: usize) -> Result<i64, AbortReason> {
        let name = self.variables.name(index);
        let mut text = Vec::new();
        if !self.variables.write(index, &mut text) {
            return Err(self.meta_failure(scripts, format!("undefined variable \"{name}\"")));
        }
        let text = String::from_utf8_lossy(&text);
        let number = text.trim_start();
        let sign = usize::from(number.starts_with(['+', '-']));
        let digits = number[sign..].bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            let problem = format!("variable \"{name}\" is \"{text}\", which is no sleep time");
            return Err(self.meta_failure(scripts, problem));
        }
        // More digits than fit: as long as can be.
        Ok(number[..sign + digits].parse().unwrap_or(i64::MAX))
    }

    /// Where the script stands.
    pub(super) fn place(&self, scripts: &Scripts) -> Place {
        scripts.programs[self.script].script.commands[self.command].place.clone()
    }

    #[cold]
    pub(super) fn meta_failure(&self, scripts: &Scripts, problem: String) -> AbortReason {
        let command = &scripts.programs[self.script].script.commands[self.command];
        let (place, command) = (command.place.clone(), command.action.name());
        AbortReason::Meta { place, command, problem }
    }

    #[cold]
    pub(super) fn unfinished(&self, scripts: &Scripts, problem: &'static str) -> AbortReason {
        let script = scripts.programs[self.script].script.origin.to_string();
        AbortReason::Unfinished { script, problem }
    }
}
