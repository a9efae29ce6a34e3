"use strict";

/* The buttons of the tab "Scheduling": each posts one change, and the page is loaded again to show what came of it. */
(function () {
  const STORED = "spark-sched-answer";
  const answer = document.getElementById("sched-answer");

  function say(text, failed) {
    answer.textContent = text;
    answer.className = failed ? "text-danger" : "";
  }

  /* Those of the button, and what was typed beside it. */
  function argumentsOf(button) {
    const given = JSON.parse(button.dataset.schedArguments);
    const form = button.closest("[data-sched-form]");
    if (form !== null) form.querySelectorAll("input, select").forEach(function (input) {
      if (input.value.trim() !== "") given[input.name] = input.value.trim();
    });
    return JSON.stringify(given);
  }

  function post(button) {
    button.disabled = true;
    fetch(answer.dataset.schedUrl + button.dataset.schedAction, {
      method: "POST",
      credentials: "same-origin",
      headers: {"Content-Type": "application/json", "X-Spark-Sched": "1"},
      body: argumentsOf(button)
    }).then(function (response) {
      return response.json();
    }).then(function (result) {
      if (result.error) throw new Error(result.error);
      window.sessionStorage.setItem(STORED, result.done);
      window.location.reload();
    }).catch(function (error) {
      button.disabled = false;
      say(error.message, true);
    });
  }

  document.addEventListener("click", function (event) {
    const button = event.target.closest("button[data-sched-action]");
    if (button === null) return;
    const given = JSON.parse(argumentsOf(button));
    const question = (button.dataset.schedConfirm || "").replace("{name}", given.name);
    if (!question || window.confirm(question)) post(button);
  });

  const stored = window.sessionStorage.getItem(STORED);
  if (stored !== null) {
    window.sessionStorage.removeItem(STORED);
    say(stored, false);
  }
})();
