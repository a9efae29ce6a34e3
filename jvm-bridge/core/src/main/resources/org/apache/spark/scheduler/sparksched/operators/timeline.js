"use strict";

/* Brings the picture of the executors' slots up to date while somebody looks at it. */
(function () {
  const EVERY_MS = 5000;
  const ID = "sched-slots";

  function refresh() {
    if (document.hidden) return;
    fetch(window.location.href, {credentials: "same-origin"}).then(function (response) {
      if (!response.ok) throw new Error(response.statusText);
      return response.text();
    }).then(function (text) {
      const fresh = new DOMParser().parseFromString(text, "text/html").getElementById(ID);
      if (fresh !== null) document.getElementById(ID).replaceWith(fresh);
    }).catch(function () { /* The application may be over: what was shown last stays. */ });
  }

  window.setInterval(refresh, EVERY_MS);
})();
