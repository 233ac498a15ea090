/* site.js - a filter for the page of keys: it shows the keys whose name or description has all the words of the input. */
document.addEventListener('DOMContentLoaded', function () {
  var article = location.pathname.endsWith('/keys.html') && document.querySelector('article');
  if (!article) return;
  var items = Array.from(article.querySelectorAll('li')), headings = Array.from(article.querySelectorAll('h2'));
  var input = document.createElement('input');
  input.type = 'search';
  input.className = 'keys-filter';
  input.placeholder = 'Show only keys with these words';
  article.insertBefore(input, headings[0]);
  input.addEventListener('input', function () {
    var words = input.value.toLowerCase().split(/\s+/);
    items.forEach(function (item) {
      var text = item.textContent.toLowerCase();
      item.hidden = !words.every(function (word) { return text.includes(word); });
    });
    headings.forEach(function (heading) { /* a heading, its text and its list */
      var parts = [heading], next = heading.nextElementSibling;
      for (; next && next.tagName !== 'H2'; next = next.nextElementSibling) parts.push(next);
      var shown = parts.some(function (part) { return part.querySelector('li:not([hidden])'); });
      parts.forEach(function (part) { part.hidden = !shown; });
    });
  });
});
