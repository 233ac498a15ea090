/* site.js - a filter for the page of keys: it shows the keys of which the path and the description have all the words of
 * the input. */
document.addEventListener('DOMContentLoaded', function () {
  var article = location.pathname.endsWith('/keys.html') && document.querySelector('article');
  if (!article) return;
  var headings = Array.from(article.querySelectorAll('h2')), input = document.createElement('input');
  input.type = 'search';
  input.className = 'keys-filter';
  input.placeholder = 'Show only keys with these words';
  article.insertBefore(input, headings[0]);
  var sections = headings.map(function (heading) { /* a heading, its text and its list */
    var parts = [heading], next = heading.nextElementSibling;
    for (; next && next.tagName !== 'H2'; next = next.nextElementSibling) parts.push(next);
    return parts;
  });

  input.addEventListener('input', function () {
    var words = input.value.toLowerCase().split(/\s+/);
    sections.forEach(function (parts) {
      var found = false;
      parts.forEach(function (part) {
        part.querySelectorAll('li').forEach(function (item) {
          var text = (parts[0].textContent + item.textContent).toLowerCase();
          item.hidden = !words.every(function (word) { return text.includes(word); });
          found = found || !item.hidden;
        });
      });
      parts.forEach(function (part) { part.hidden = !found; });
    });
  });
});
