//! What a client makes of the server's replies.

use super::*;

impl Machine {
    #[inline]
    pub(super) fn receive(
        &mut self,
        scripts: &Scripts,
        chunk: &[u8],
        host: &mut impl Host,
    ) -> Result<Progress, AbortReason> {
        let Self { walker, reply, variables, .. } = self;
        match self.results_of.and_then(|index| scripts.statements[index].results.as_ref()) {
            None => walker.walk(chunk, false, |frame| reply.take(&frame))?,
            Some(results) => {
                walker.walk(chunk, true, |frame| reply.take_rows(&frame, results, variables))?;
            }
        }
        if reply.error.is_some() || reply.copy {
            self.check_reply(scripts)?;
        }
        match self.reply.ready_count.cmp(&self.awaited_count) {
            Ordering::Less => Ok(Progress::Waiting),
            Ordering::Equal if self.awaited_count == 0 => Ok(Progress::Waiting),
            Ordering::Equal => self.answered(scripts, host),
            Ordering::Greater => {
                Err(AbortReason::Protocol("the server answered more than it was asked".to_owned()))
            }
        }
    }

    /// Gives up where the end of the reply is not worth waiting for. Everything else waits for it: a
    /// server whose client leaves in the middle of a reply logs a lost connection.
    #[cold]
    fn check_reply(&mut self, scripts: &Scripts) -> Result<(), AbortReason> {
        if self.reply.copy {
            let place = self.place(scripts);
            let text = format!("{place}: the script started a COPY, which a load cannot serve");
            return Err(AbortReason::Protocol(text));
        }
        let Some(error) = &self.reply.error else { return Ok(()) };
        if error.ends_the_connection() || matches!(self.state, State::Idle | State::Sleeping) {
            return Err(AbortReason::Terminated(error.clone()));
        }
        Ok(())
    }

    /// The whole reply is there.
    fn answered(
        &mut self,
        scripts: &Scripts,
        host: &mut impl Host,
    ) -> Result<Progress, AbortReason> {
        if !self.parsing.is_empty() {
            self.note_prepared();
        }
        if let Some(problem) = self.reply.problem.take() {
            return Err(self.meta_failure(scripts, problem));
        }
        let failure = match &self.reply.error {
            None => None,
            Some(error) => {
                self.check_survives(scripts, error)?;
                host.error(self.at(), error);
                Some(error.outcome())
            }
        };
        self.reply.clear();
        self.awaited_count = 0;
        self.results_of = None;
        match (self.state, failure) {
            (State::RollingBack(outcome), _) => self.failed(scripts, outcome, host),
            (_, Some(outcome)) if self.reply.status == IDLE => self.failed(scripts, outcome, host),
            (_, Some(outcome)) => {
                self.state = State::RollingBack(outcome);
                self.request.clear();
                self.request.extend_from_slice(b"Q\0\0\0\x0dROLLBACK\0");
                Ok(self.send(1))
            }
            (State::Preparing, None) => {
                self.state = State::Running;
                self.request.clear();
                self.advance(scripts, host)
            }
            (_, None) => {
                host.ended(self.at());
                self.request.clear();
                self.advance(scripts, host)
            }
        }
    }

    /// Gives up where no rule lets the client survive this error.
    #[cold]
    fn check_survives(&self, scripts: &Scripts, error: &ServerError) -> Result<(), AbortReason> {
        if let State::RollingBack(_) = self.state {
            return Err(AbortReason::Rollback(error.clone()));
        }
        let is_other = matches!(error.outcome(), Outcome::OtherFailure(_));
        let rules = scripts.rules;
        let survives =
            rules.continue_on_error || rules.tolerated.contains(&error.sqlstate.as_str());
        if is_other && !survives {
            return Err(AbortReason::Statement {
                place: self.place(scripts),
                error: error.clone(),
            });
        }
        Ok(())
    }

    fn note_prepared(&mut self) {
        for ready_count in &self.reply.parsed {
            if let Some(at) = self.parsing.iter().position(|(before, _)| before == ready_count) {
                let (_, statement) = self.parsing.remove(at);
                self.prepared[statement] = true;
            }
        }
        self.parsing.clear();
    }

    /// The transaction has failed and is rolled back.
    pub(super) fn failed(
        &mut self,
        scripts: &Scripts,
        outcome: Outcome,
        host: &mut impl Host,
    ) -> Result<Progress, AbortReason> {
        let max_tries = scripts.rules.max_tries;
        let retried = !matches!(outcome, Outcome::OtherFailure(_))
            && (max_tries == 0 || self.tries_count < max_tries)
            && host.may_retry();
        host.failed(self.at(), retried);
        if retried {
            self.tries_count += 1;
            self.streams.functions = self.first_functions.clone();
            return self.restart(scripts, host);
        }
        Ok(self.over(outcome))
    }
}
