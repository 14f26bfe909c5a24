// The management API's documentation: from the server itself, so that it is there without internet, too.
import SwaggerUI from 'swagger-ui-dist/swagger-ui-es-bundle.js';
import 'swagger-ui-dist/swagger-ui.css';

SwaggerUI({
  url: '/api/v1/openapi.json',
  dom_id: '#docs',
  deepLinking: true,
  docExpansion: 'list',
  filter: true,
  // Otherwise a badge is asked of a host of Swagger's.
  validatorUrl: null,
});
